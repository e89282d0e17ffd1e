"""The everyday names that photon-tiny is taught, with synonyms and the material each may be drawn from.

One line a name: ``name: synonym, synonym, ~material, =lemma``. A synonym is a word that a user may type; it also
finds material. ``~`` marks a word that finds material only. ``=`` names the WordNet noun through which the name
reaches ImageNet's classes when its own first useful sense would be the wrong thing (``=`` alone: none).
"""

from __future__ import annotations

from dataclasses import dataclass

_TABLE = """
ant
bat: =
bear: grizzly, grizzly bear, ~bear-face
beaver
bee: honeybee, honey bee, bumblebee
beetle: ladybug, lady beetle, ladybird
bird: sparrow, songbird, robin, ~front-facing-baby-chick
butterfly
camel: dromedary, ~two-hump-camel, ~bactriancamel
cat: kitten, kitty, house cat, siamese cat, ~cat-face, ~cat2, =domestic cat
chick: baby chick, ~hatching-chick, =
cow: cattle, calf, ~cow-face, ~cow2, =ox
crab
crocodile: alligator, ~croc, =crocodilian reptile
deer: stag, =
dinosaur: t-rex, sauropod, tyrannosaurus, =dinosaur
dog: puppy, doggy, hound, poodle, bulldog, guide dog, service dog, ~dog-face, ~dog2
dolphin: =
donkey: mule, =
dove: pigeon, =
dragon: =
duck: duckling, mallard
eagle
elephant
fish: goldfish, ~tropical-fish, ~carp
flamingo
fly: housefly, =fly
fox: ~fox-face
frog: toad, ~frog-face
giraffe: =
goat: billy goat
goose
gorilla
hamster: ~hamster-face
hedgehog: =porcupine
hippopotamus: hippo
horse: pony, stallion, ~horse-face, =sorrel
jellyfish
kangaroo: wallaby, =wallaby
koala: koala bear
leopard: cheetah, jaguar
lion: lioness, ~lion-face
lizard: gecko, iguana
llama: alpaca
lobster
monkey: ~monkey-face
mosquito: =
mouse: ~mouse-face, ~mouse2, =
octopus: =
orangutan
otter
owl
panda: panda bear, giant panda, ~panda-face, =giant panda
parrot: macaw, cockatoo
peacock
penguin
pig: piglet, hog, ~pig-face, ~pig2, =hog
polar bear: =ice bear
rabbit: bunny, hare, ~rabbit-face
raccoon: =
rhinoceros: rhino, =
rooster: cock, =cock
hen: chicken
scorpion
seal: sea lion, =sea lion
shark
sheep: lamb, ewe
ram: =ram
shrimp: prawn, ~fried-shrimp, =
skunk
sloth
snail
snake: serpent, cobra
spider: tarantula
squid: =
squirrel: chipmunk, =fox squirrel
swan
tiger: ~tiger-face
turkey: =
turtle: tortoise
unicorn: =
whale: ~spouting-whale, ~humpback-whale
wolf: ~wolf-face
zebra
almond: ~peanuts, peanut, nut, =
apple: red apple, green apple, ~red-apple, ~greenapple, ~redapple, =granny smith
avocado: =
bacon: =
bagel
banana
bread: loaf, ~baguette-bread, baguette, =bread
broccoli
burrito
cabbage: lettuce, ~leafy-green, =
cake: birthday cake, ~shortcake, =
cupcake: muffin, ~cup cake, =
candy: sweet, sweets, lollipop, =
carrot: =
cheese: ~cheese-wedge, =
cherry: cherries, =
chili: chili pepper, hot pepper, ~hotpepper, =
chocolate: chocolate bar, =
coconut: =
cookie: biscuit, =
corn: maize, sweetcorn, ~ear-of-corn, ~earofmaize
croissant: =
cucumber
doughnut: donut, =
egg: eggs, ~cooking, fried egg, =
eggplant: aubergine, =
french fries: fries, chips, ~french-fries, =
garlic: =
grapes: grape, =
hamburger: burger, cheeseburger, =cheeseburger
hot dog: hotdog, =hotdog
ice cream: icecream, sundae, ice cream cone, ~soft-ice-cream, ~ice-cream, ~softicecream, ~shaved-ice
kiwi: kiwifruit, ~kiwi-fruit, =
lemon: lime
mango: =
melon: cantaloupe, =
watermelon: =
mushroom: toadstool, ~brown-mushroom
olive: =
onion: =
orange: tangerine, mandarin, clementine
pancake: pancakes, =
peach: nectarine, =
pear: =
pea: peas, ~pea-pod, =
pepper: bell pepper, ~bell-pepper
pie: =
pineapple
pizza
popcorn: =
potato: potatoes, ~roasted-sweet-potato, =
pretzel
pumpkin: jack-o'-lantern, ~jack-o-lantern, ~jackolantern, =
salad: ~green-salad, =
sandwich: =
soup: ~steaming-bowl, ~pot-of-food, =soup bowl
spaghetti: pasta, noodles, =carbonara
steak: meat, ~cut-of-meat, ~meat-on-bone, =
strawberry
sushi: =
taco: =
tomato: =
waffle: =
beer: beer mug, beer glass, ~beer-mug, =beer glass
cocktail: cocktail glass, martini, ~cocktail-glass, ~tropical-drink, =cocktail shaker
wine glass: goblet, ~wine-glass, =goblet
coffee: ~hot-beverage, ~hotbeverage, =espresso
milk: glass of milk, ~glass-of-milk, =
cup: mug, coffee mug, coffee cup, teacup, ~plastic cup
glass: tumbler, drinking glass, ~tumbler-glass, =
teapot: kettle
bottle: beer bottle, wine bottle, water bottle, ~bottle-with-popping-cork, ~baby-bottle, ~yogurt bottle
jar: ~old jar, ~honey-pot, =
bowl: ~bowl-with-spoon, =mixing bowl
plate: dish, ~oval plate, =
fork: =
knife: kitchen knife, dagger, ~kitchen-knife, ~hocho, =cleaver
spoon: =wooden spoon
chopsticks: chopstick, =
pan: frying pan, skillet, saucepan, ~shallow-pan-of-food, ~large pan, =frying pan
pot: cooking pot, ~cooking-pot, =caldron
blender: mixer, =
toaster
microwave: microwave oven
oven: stove, cooker, =stove
refrigerator: fridge, freezer, ~chest freezer
dishwasher: =dishwasher
washing machine: washer, ~clothes washing machine
sink: washbasin, basin, ~bathroom-sink, =washbasin
bathtub: bath, tub, ~island bath
shower: ~shower stall, =
toilet: lavatory, ~toilets unit, =toilet seat
toilet paper: ~roll-of-paper, ~toilet paper dispenser
soap: =soap dispenser
towel: bath towel, =bath towel
toothbrush: =
comb: ~hair-pick, =
razor: =
mirror: =
bed: double bed, ~bunk bed, ~hospital bed, ~baby bed, =four-poster
pillow: cushion
chair: armchair, dining chair, office chair, seat, ~deck chair, ~beach chair
bench
stool: bar stool, ~puff, =
sofa: couch, settee, ~couch-and-lamp, ~futon couch, =studio couch
table: dining table, coffee table, ~round table, =dining table
desk: writing desk
bookcase: bookshelf, shelf, shelves
cabinet: cupboard, file cabinet, drawer, dresser, ~file-cabinet, ~locked locker, =china cabinet
wardrobe: closet
door: =sliding door
window: ~window shutter, =
curtain: =shower curtain
carpet: rug, ~doormat, =
fireplace: ~chimney, =
lamp: desk lamp, floor lamp, ~ceiling lamp, ~wall light, ~hanging light, =table lamp
light bulb: bulb, ~light-bulb, ~electriclightbulb, =
candle
flashlight: torch, =
lantern: ~red-paper-lantern, ~stone lantern, =
street light: streetlight, street lamp, lamppost, ~park light, =
fan: ventilator, ~ceiling fan, ~rigged fan, =electric fan
radiator
clock: wall clock, ~mantelpiece-clock, ~cuckoo clock
alarm clock: ~alarm-clock, =
watch: wristwatch
hourglass: ~hourglass-done, ~hourglass-not-done
vase: ~pottery, ~amphora
flower pot: plant pot, flowerpot, potted plant, houseplant, ~potted-plant, ~plant, ~indoor plant, ~plant box, =flowerpot
television: tv, tv set, ~tv 16:9, ~wall flat tv
computer: desktop computer, pc, ~desktop-computer, =desktop computer
laptop: notebook computer, ~apple ibook
keyboard: computer keyboard, =computer keyboard
computer mouse: ~computer-mouse, ~threebuttonmouse, =mouse
screen: monitor, computer screen, =crt screen
printer: ~inkjet printer and scanner
phone: telephone, ~telephone, =dial telephone
mobile phone: cell phone, smartphone, cellphone, ~mobile-phone, ~apple iphone, =cellular telephone
camera: photo camera, ~camera-with-flash, ~reflex camera, =reflex camera
video camera: camcorder, ~movie-camera, ~video-camera, =
radio: =radio
headphones: headphone, earphones, headset, =
microphone: mic, ~studio-microphone
speaker: loudspeaker, =loudspeaker
remote control: remote, ~tv remote control
game controller: gamepad, joystick, ~video-game, ~videogame
battery: =
plug: electric plug, ~electric-plug, ~electricplug, ~square type a plug, =
calculator: pocket calculator, =hand calculator
book: ~closed-book, ~open-book, ~blue-book, ~green-book, ~orange-book, =
newspaper: ~rolled-up-newspaper, ~rollednewspaper, =
notebook: notepad, ~spiral-notepad, ~notebook-with-decorative-cover, =binder
envelope: letter, ~e-mail, ~incoming-envelope, ~love-letter
calendar: ~tear-off-calendar, ~spiral-calendar, =
pencil: =
pen: fountain pen, ballpoint pen, ~fountain-pen, =ballpoint
crayon: =
paintbrush: brush
scissors: =
ruler: ~straight-ruler, ~triangular-ruler, ~straightruler
paper clip: paperclip, ~linked-paperclips, =
pushpin: drawing pin, thumbtack, ~round-pushpin, =
magnifying glass: magnifier, loupe, ~magnifying-glass-tilted-left, ~magnifying-glass-tilted-right, =
microscope: =
telescope: =
globe: ~globe-showing-americas, ~globe-showing-europe-africa, ~americasglobe, =
map: ~world-map, =
key: keys, ~old-key, ~oldkey, =
lock: padlock, ~locked, ~unlocked, ~locked-with-key, =combination lock
box: cardboard box, package, parcel, ~open cardboard box, =carton
gift: present, gift box, ~wrapped-gift, ~wrappedpresent, =
basket: ~clothes basket, ~shopping basket, =shopping basket
bucket: pail
barrel: ~oil-drum
broom: =broom
sponge: =
trash can: garbage can, wastebasket, dustbin, rubbish bin, bin, ~bullet trash can, =ashcan
hammer
axe: hatchet, ax, =hatchet
saw: handsaw, ~carpentry-saw, =
screwdriver
wrench: spanner, =
pliers: ~cutting pliers, =
drill: power drill, =power drill
ladder: step ladder, ~small step ladder, =
shovel: spade
toolbox: tool box, tool kit, =
nut and bolt: bolt, screw, ~nut-and-bolt, =screw
gear: cog, cogwheel, =
magnet: =
chain: chains, =chain
rope: knot, =knot
thread: spool, bobbin, =
scale: scales, balance scale, ~balance-scale, ~kitchen scale, ~electronic scale, =scale
thermometer: =
syringe: injection
pill: pills, capsule, medicine, =
stethoscope
bandage: band-aid, plaster, ~adhesive-bandage, =band aid
backpack: rucksack, school bag, ~schoolsatchel
handbag: purse, clutch bag, ~clutch-bag, =purse
suitcase: luggage, trunk, =
briefcase: =
shopping bag: shopping bags, ~shopping-bags, =plastic bag
wallet: billfold
umbrella: parasol, ~closed-umbrella, ~umbrella-with-rain-drops, ~umbrella-on-ground
glasses: eyeglasses, spectacles, =
sunglasses: =sunglasses
hat: top hat, sun hat, ~top-hat, ~womans-hat, ~womanshat, =hat
cap: baseball cap, ~billed-cap, =bathing cap
helmet: hard hat, crash helmet, ~rescue-workers-helmet, ~military-helmet, =crash helmet
crown: ~crown, =crown
shirt: t-shirt, tee shirt, ~t-shirt, ~running-shirt, =jersey
dress: gown, =gown
coat: jacket, =coat
trousers: pants, jeans, =jean
shorts: =
skirt: =miniskirt
suit: =suit
tie: necktie, =necktie
sock: socks
shoe: running shoe, ~running-shoe, ~mans-shoe, ~flat-shoe, sneaker, sneakers, trainer, =shoe
boot: boots, ~womans-boot, ~hiking-boot, =cowboy boot
high heel: high heels, ~high-heeled-shoe, ~woman shoes, =
sandal: sandals, flip-flop, ~womans-sandal, ~thong-sandal
glove: gloves, mitten, =mitten
scarf: =
ring: engagement ring, =
lipstick: ~lip stick
airplane: plane, aeroplane, airliner, aircraft, jet, ~small-airplane, ~airplane-departure, =airliner
helicopter: =
hot air balloon: =balloon
rocket: spaceship, =
satellite: =
parachute
car: automobile, ~sport-utility-vehicle, suv, convertible, ~oncoming-automobile, ~vw new beetle, ~concept sedan 01, ~ford focus, =car
racing car: race car, ~racing-car, =racer
taxi: cab, ~oncoming-taxi, =
police car: ~police-car, ~oncoming-police-car, =police van
ambulance
fire truck: fire engine, ~fire-engine, =fire engine
truck: lorry, pickup truck, delivery truck, ~articulated-lorry, ~delivery-truck, ~pickup-truck, =truck
van: minivan, minibus
bus: coach, school bus, ~oncoming-bus, ~trolleybus, ~city bus, =bus
train: locomotive, ~high-speed-train, ~bullet-train, ~railway-car, =bullet train
tram: streetcar, trolley, ~tram-car, =streetcar
motorcycle: motorbike, ~yamaha yzr r6, =moped
scooter: motor scooter, ~motor-scooter, =motor scooter
kick scooter: ~kick-scooter, =
bicycle: bike, push bike, ~indoor bike
tricycle: trike
tractor
sailboat: sailing boat, yacht, =yawl
ship: passenger ship, cruise ship, ocean liner, ~passenger-ship, ~ferry, =ship
boat: speedboat, rowboat, motor boat, ~motor-boat, =boat
canoe: kayak
anchor: =
wheel: =car wheel
wheelchair: ~manual-wheelchair, ~motorized-wheelchair, =
shopping cart: shopping trolley, ~shopping-cart
stroller: pram, baby carriage, =
wheelbarrow: =barrow
traffic light: stoplight, traffic lights, ~vertical-traffic-light, ~horizontal-traffic-light, ~verticaltrafficlight
stop sign: ~stop-sign, =
fire hydrant: hydrant, =
fire extinguisher: extinguisher, ~fire-extinguisher, =
mailbox: postbox, letter box, ~closed-mailbox-with-raised-flag, ~open-mailbox-with-raised-flag, ~letters box
fence: ~picket fence, =picket fence
fountain
tent: camping tent, ~camping tent, =
house: home, ~house-with-garden, =
castle: ~japanese-castle
church
lighthouse: =beacon
bridge: ~bridge-at-night, =bridge
windmill: =
statue: ~statue-of-liberty, =
tree: ~deciduous-tree, ~evergreen-tree, ~pine, ~poplar, ~cypress, ~acacia, pine tree, ~sycamore maple, =
palm tree: ~palm-tree, ~coconut tree, ~bended coconut tree, =
christmas tree: ~christmas-tree, =
cactus: ~succulent plant, =
flower: blossom, ~cherry-blossom, ~hibiscus, ~white-flower, =flower
rose: =
sunflower: =
tulip: ~tulips, =
leaf: ~maple-leaf, ~fallen-leaf, ~leaf-fluttering-in-wind, =
bouquet: ~flowers, =
cloud: =
mountain: ~snow-capped-mountain, ~mount-fuji, =alp
volcano
moon: full moon, ~full-moon, ~crescent-moon, =
star: ~glowing-star, =
snowman: ~snowman-without-snow, =
person: human, someone, ~person-standing, ~person-walking, ~person-running, ~pedestrian
man: guy, male, ~man-walking, ~man-standing, ~man-dancing, ~old-man, ~sitting male, ~mannequin male, =
woman: lady, female, ~woman-walking, ~woman-standing, ~old-woman, ~sitting female, ~woman-dancing, ~mannequin female, =
boy: ~sitting boy, =
girl: ~sitting girl, =
baby: infant, ~baby-angel, =
eye: =
ear: =
nose: =
mouth: lips, =
hand: ~raised-hand, ~hand-with-fingers-splayed, ~waving-hand, =
foot: =
tooth: teeth, =
bone: =
skull: =
brain: =brain coral
basketball
soccer ball: football, ~soccer-ball, =soccer ball
american football: ~american-football, ~rugby-football, rugby ball, =rugby ball
baseball: ~softball
tennis ball: ~tennis, =tennis ball
tennis racket: racket, ~badminton, ~tennis racket, =racket
volleyball
golf ball: ~flag-in-hole, =golf ball
ping pong: table tennis bat, ping-pong paddle, ~ping-pong, ~tabletennis, =ping-pong ball
bowling: bowling pin, bowling ball, =
dart: bullseye, dartboard, target, ~direct-hit, ~dart game, =
boxing glove: ~boxing-glove, =
skateboard: =
ski: skis
sled: sledge, ~dogsled, =dogsled
ice skate: ~ice-skate, =
roller skate: ~roller-skate, =
kite: =
fishing rod: ~fishing-pole, =
dumbbell: barbell, weights, =dumbbell
trophy: cup trophy, =
medal: ~sports-medal, ~1st-place-medal, ~2nd-place-medal, ~3rd-place-medal, ~military-medal, =
dice: die, ~game-die, =
puzzle: jigsaw, ~puzzle-piece, =jigsaw puzzle
chess: chess piece, ~chess-pawn, ~chessboard, =
playing card: cards, ~joker, ~card game, =
teddy bear: teddy, ~teddy-bear, =teddy
doll: ~nesting-dolls, ~japanese-dolls, =
robot: ~robot-face, =
balloon: =
yarn: wool, ~ball-of-wool, =
guitar: electric guitar, acoustic guitar, =guitar
violin: fiddle
piano: grand piano, ~musical-keyboard, ~upright piano, =piano
trumpet: cornet, ~postal-horn, =cornet
saxophone: sax
drum: ~long-drum, =drum
accordion
banjo
flute
bell
whistle
megaphone: bullhorn, =
flag: ~triangular-flag, ~chequered-flag, ~black-flag, ~white-flag, =flagpole
coin: =
money: banknote, cash, ~dollar-banknote, ~euro-banknote, ~money-bag, ~pound-banknote, ~moneybag, =
credit card: ~credit-card, =
diamond: gem, jewel, ~gem-stone, ~gemstone, =
bomb: =
sword: ~crossed-swords, =
shield: =buckler
gun: pistol, ~water-pistol, =revolver
fire: flame, =
cigarette: =
compass: =
pipe: =
crate: pallet, =crate
piggy bank: money box, =piggy bank
"""


@dataclass(frozen=True)
class TaughtName:
    """A name with the synonyms a user may type, words that find its material, and its WordNet lemma."""

    name: str
    synonyms: tuple[str, ...]
    material: tuple[str, ...]
    lemma: str | None


def taught_names() -> tuple[TaughtName, ...]:
    """All taught names in the order of the table; names and synonyms are lower case and unique."""
    return tuple(_parse(line) for line in _TABLE.strip().splitlines())


def _parse(line: str) -> TaughtName:
    name, _, rest = line.partition(":")
    words = [word.strip() for word in rest.split(",") if word.strip()]
    synonyms = tuple(word for word in words if word[0] not in "~=")
    material = tuple(word[1:] for word in words if word[0] == "~")
    lemma = next((word[1:] or None for word in words if word[0] == "="), name)
    return TaughtName(name, synonyms, (name, *synonyms, *material), lemma)

"""Everyday names, part two: things, vehicles, places, people and play. The form of a line is explained in `names`."""

TABLE = """
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
car: automobile, ~sport-utility-vehicle, suv, convertible, ~oncoming-automobile, ~vw new beetle, ~concept sedan, =car
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

"""Everyday names, part one: animals, food and drink. The form of a line is explained in `names`."""

TABLE = """
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
"""

"""Word lists of the demo model's data. Everything that the grammars name comes from here, so the vocabulary stays small."""

import zlib


def stable_hash(text: str) -> int:
    return zlib.crc32(text.encode())


NAMES = ("Mia Tom Lena Sam Nora Ben Ida Leo Ada Finn Rosa Max Ella Otto Zoe Karl Anna Paul Emma Jack Alice Bob Maria Peter Sarah David Laura "
         "Jonas Clara Hugo Eva Omar Aisha Ravi Priya Chen Yuki Kenji Ali Fatima Carlos Sofia Marco Julia Ivan Olga Kofi Amara Liam Grace "
         "John Jane Lucy Mark Oscar Ruth Simon Vera Emil Nina").split()

# Cities beyond the capitals.
CITIES = ("Hamburg Munich Lyon Milan Naples Porto Seville Valencia Barcelona Geneva Zurich Rotterdam Antwerp Glasgow Liverpool Manchester Boston "
          "Chicago Seattle Denver Dallas Houston Toronto Montreal Vancouver Sydney Melbourne Perth Osaka Kyoto Shanghai Mumbai Chennai Istanbul "
          "Dubai Lagos Casablanca Bergen Gdansk Kolkata Leeds Bristol Austin Miami").split()

# The first noun of each pair is what we ask with ("a" or "an" by its first letter); plurals are spelled out.
ANIMALS = {
    "cat": "cats", "dog": "dogs", "fox": "foxes", "bear": "bears", "mouse": "mice", "owl": "owls", "rabbit": "rabbits", "duck": "ducks",
    "frog": "frogs", "goat": "goats", "horse": "horses", "hen": "hens", "sheep": "sheep", "goose": "geese", "wolf": "wolves", "deer": "deer",
    "lion": "lions", "tiger": "tigers", "monkey": "monkeys", "donkey": "donkeys", "pony": "ponies", "bee": "bees", "ant": "ants",
    "fish": "fish", "whale": "whales", "snake": "snakes", "turtle": "turtles", "eagle": "eagles", "crow": "crows", "zebra": "zebras",
    "camel": "camels", "pig": "pigs", "cow": "cows", "lamb": "lambs", "puppy": "puppies", "kitten": "kittens", "otter": "otters",
    "penguin": "penguins", "parrot": "parrots", "squirrel": "squirrels", "hedgehog": "hedgehogs", "badger": "badgers", "spider": "spiders",
    "butterfly": "butterflies", "elephant": "elephants", "giraffe": "giraffes", "dolphin": "dolphins", "shark": "sharks", "bird": "birds",
    "swan": "swans",
}
FOODS = {
    "apple": "apples", "pear": "pears", "banana": "bananas", "cherry": "cherries", "berry": "berries", "lemon": "lemons", "orange": "oranges",
    "plum": "plums", "peach": "peaches", "grape": "grapes", "tomato": "tomatoes", "potato": "potatoes", "carrot": "carrots", "onion": "onions",
    "egg": "eggs", "cake": "cakes", "cookie": "cookies", "sandwich": "sandwiches", "loaf": "loaves", "nut": "nuts", "olive": "olives",
    "mushroom": "mushrooms", "melon": "melons", "pancake": "pancakes", "radish": "radishes",
}
THINGS = {
    "book": "books", "box": "boxes", "cup": "cups", "knife": "knives", "lamp": "lamps", "map": "maps", "key": "keys", "rope": "ropes",
    "boat": "boats", "basket": "baskets", "kite": "kites", "drum": "drums", "ladder": "ladders", "blanket": "blankets", "whistle": "whistles",
    "bucket": "buckets", "chair": "chairs", "table": "tables", "door": "doors", "window": "windows", "watch": "watches", "brush": "brushes",
    "glass": "glasses", "bus": "buses", "car": "cars", "train": "trains", "ship": "ships", "bike": "bikes", "shelf": "shelves", "leaf": "leaves",
    "tree": "trees", "flower": "flowers", "stone": "stones", "star": "stars", "cloud": "clouds", "river": "rivers", "house": "houses",
    "city": "cities", "country": "countries", "story": "stories", "baby": "babies", "child": "children", "man": "men", "woman": "women",
    "foot": "feet", "tooth": "teeth", "hand": "hands", "wife": "wives", "hat": "hats", "coat": "coats", "shoe": "shoes", "sock": "socks",
    "dress": "dresses", "bell": "bells", "ball": "balls", "bag": "bags", "pen": "pens", "pencil": "pencils", "letter": "letters",
    "clock": "clocks", "spoon": "spoons", "fork": "forks", "plate": "plates", "bottle": "bottles", "candle": "candles", "mirror": "mirrors",
    "hammer": "hammers", "nail": "nails", "wheel": "wheels", "garden": "gardens", "island": "islands", "umbrella": "umbrellas", "violin": "violins",
    "piano": "pianos", "guitar": "guitars", "engine": "engines", "yard": "yards", "quilt": "quilts", "jar": "jars", "vase": "vases",
}
NOUNS = {**ANIMALS, **FOODS, **THINGS}

COLOURS = "red blue green yellow white brown black purple orange pink grey".split()
ADJECTIVES = ("big small old new red blue green yellow white brown black happy sad tall short warm cold quiet loud fast slow brave kind shy clever "
              "soft hard bright dark dry wet clean round tiny young heavy light sweet proud calm").split()
VERBS = ("sleeps runs jumps sings waits eats drinks swims reads walks plays smiles works stands sits dances").split()
PREPOSITIONS = "in on under near behind by".split()
ADVERBS = "today now slowly quickly again outside alone here".split()

JOBS = ("teacher doctor nurse farmer baker driver painter writer singer cook gardener pilot sailor carpenter engineer student lawyer dentist "
        "plumber librarian").split()
MEALS = ("pizza soup pasta rice bread cheese chocolate salad curry noodles pancakes ice-cream apples sushi fish potatoes").split()
PETS = "dog cat horse rabbit parrot hamster pony goldfish".split()
PET_NAMES = "Rex Luna Bella Max Coco Milo Ruby Bruno Daisy Oscar Lucky Nala Simba Pepper Toby Felix Bruce Molly Rocky Ziggy".split()
SPORTS = "football tennis chess golf hockey rugby swimming running cycling skiing".split()

NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()

_SYLLABLES = ("ka lo mi ra to ne sa vi do ru ba ti mo le ha zu fe jo ni pa ke so du ga bri tor lan mel dar vin sel kor nas fen tul wen zar "
              "pol rik").split()


def made_up_name(rng) -> str:
    """A name that no list has, so that copying is learned and not only the names of the list."""
    return "".join(rng.choice(_SYLLABLES) for _ in range(rng.choice((2, 2, 3)))).capitalize()


def any_name(rng) -> str:
    return rng.choice(NAMES) if rng.random() < 0.75 else made_up_name(rng)


def article(noun: str) -> str:
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def join_and(items) -> str:
    items = list(items)
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]

"""Days, months, colours, capitals, opposites and plurals."""

from words import DAYS, MONTHS, NOUNS, NUMBER_WORDS

from .closed import closed_task

CAPITALS = dict(pair.split(":") for pair in """
France:Paris Germany:Berlin Italy:Rome Spain:Madrid Portugal:Lisbon Austria:Vienna Belgium:Brussels Denmark:Copenhagen Sweden:Stockholm
Norway:Oslo Finland:Helsinki Iceland:Reykjavik Ireland:Dublin Poland:Warsaw Hungary:Budapest Greece:Athens Turkey:Ankara Russia:Moscow
Ukraine:Kyiv Romania:Bucharest Bulgaria:Sofia Serbia:Belgrade Croatia:Zagreb Slovenia:Ljubljana Slovakia:Bratislava Estonia:Tallinn
Latvia:Riga Lithuania:Vilnius Switzerland:Bern Albania:Tirana Malta:Valletta Cyprus:Nicosia Egypt:Cairo Morocco:Rabat Tunisia:Tunis
Algeria:Algiers Kenya:Nairobi Ethiopia:Addis_Ababa Ghana:Accra Nigeria:Abuja Senegal:Dakar Uganda:Kampala Rwanda:Kigali Angola:Luanda
Zambia:Lusaka Zimbabwe:Harare Japan:Tokyo China:Beijing India:New_Delhi Nepal:Kathmandu Thailand:Bangkok Vietnam:Hanoi Cambodia:Phnom_Penh
Indonesia:Jakarta Mongolia:Ulaanbaatar Pakistan:Islamabad Bangladesh:Dhaka Iran:Tehran Iraq:Baghdad Lebanon:Beirut Jordan:Amman Qatar:Doha
Oman:Muscat Canada:Ottawa Mexico:Mexico_City Cuba:Havana Jamaica:Kingston Panama:Panama_City Brazil:Brasilia Argentina:Buenos_Aires
Chile:Santiago Peru:Lima Colombia:Bogota Ecuador:Quito Uruguay:Montevideo Paraguay:Asuncion Venezuela:Caracas Australia:Canberra
Fiji:Suva Scotland:Edinburgh Wales:Cardiff England:London Georgia:Tbilisi Armenia:Yerevan Somalia:Mogadishu
Belarus:Minsk Malaysia:Kuala_Lumpur Kazakhstan:Astana Afghanistan:Kabul Syria:Damascus Libya:Tripoli Sudan:Khartoum Tanzania:Dodoma
Madagascar:Antananarivo Azerbaijan:Baku Namibia:Windhoek Haiti:Port-au-Prince Singapore:Singapore Luxembourg:Luxembourg
""".replace("\n", " ").split())
CAPITALS = {k: v.replace("_", " ") for k, v in CAPITALS.items()}
CAPITALS |= {"the United States": "Washington", "the United Kingdom": "London", "the Netherlands": "Amsterdam", "South Korea": "Seoul",
             "the Philippines": "Manila", "the Czech Republic": "Prague", "New Zealand": "Wellington", "Saudi Arabia": "Riyadh",
             "Costa Rica": "San Jose", "North Korea": "Pyongyang", "the United Arab Emirates": "Abu Dhabi", "the Dominican Republic": "Santo Domingo"}
_ALSO_CALLED = {"the USA": "the United States", "the US": "the United States", "the UK": "the United Kingdom", "Great Britain": "the United Kingdom"}

OPPOSITES = [pair.split(":") for pair in """
hot:cold big:small old:young fast:slow high:low long:short day:night up:down left:right open:closed happy:sad light:dark hard:soft
wet:dry full:empty early:late good:bad rich:poor strong:weak clean:dirty loud:quiet near:far inside:outside first:last more:less
always:never true:false yes:no black:white summer:winter begin:end win:lose give:take buy:sell push:pull love:hate ask:answer
laugh:cry thick:thin wide:narrow deep:shallow sharp:blunt smooth:rough tall:tiny easy:difficult cheap:expensive brave:afraid
heavy:weightless right:wrong north:south east:west above:below before:after come:go sweet:sour simple:complicated safe:dangerous
ancient:modern success:failure friend:enemy question:reply front:back top:bottom
""".replace("\n", " ").split()]
# One opposite for each word: "light" is asked as the opposite of dark, "right" as that of left.
_OPPOSITE_OF = {}
for _a, _b in OPPOSITES:
    _OPPOSITE_OF.setdefault(_a, _b)
    _OPPOSITE_OF.setdefault(_b, _a)
for _word in ("tiny", "weightless", "reply", "complicated", "blunt", "afraid"):
    del _OPPOSITE_OF[_word]
_OPPOSITE_OF["heavy"] = "light"
_OPPOSITE_OF["tall"] = "short"
_OPPOSITE_OF["short"] = "long"
_OPPOSITE_OF["question"] = "answer"
_OPPOSITE_OF["answer"] = "question"
_OPPOSITE_OF["sharp"] = "blunt"
_OPPOSITE_OF["young"] = "old"

COLOUR_OF = {
    "grass": "green", "the sky": "blue", "snow": "white", "milk": "white", "a lemon": "yellow", "a banana": "yellow", "the sun": "yellow",
    "blood": "red", "a tomato": "red", "a cherry": "red", "a strawberry": "red", "a carrot": "orange", "an orange": "orange",
    "a pumpkin": "orange", "coal": "black", "the night": "black", "chocolate": "brown", "wood": "brown", "soil": "brown", "the sea": "blue",
    "a frog": "green", "a leaf": "green", "a cucumber": "green", "a pea": "green", "a plum": "purple", "a flamingo": "pink", "a pig": "pink",
    "an elephant": "grey", "a stone": "grey", "a mouse": "grey", "cotton": "white", "a crow": "black", "a swan": "white", "a fire engine": "red",
    "honey": "yellow", "a polar bear": "white",
}
COLOUR_MIX = {("blue", "yellow"): "green", ("red", "yellow"): "orange", ("red", "blue"): "purple", ("red", "white"): "pink",
              ("black", "white"): "grey"}
DAYS_IN = dict(zip(MONTHS, (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)))
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()


def _days():
    for i, day in enumerate(DAYS):
        after, before = DAYS[(i + 1) % 7], DAYS[i - 1]
        yield f"after {day}", [f"{{What|Which}} day {{comes after|follows|is after}} {day}?", f"What is the day after {day}?",
                               f"If today is {day}, what day is tomorrow?", f"Today is {day}. What is tomorrow?", f"next day after {day}",
                               f"Tell me the day after {day}.", f"{{Name|Give me|I need}} the day {{after|that follows}} {day}.",
                               f"{day} is today. What is tomorrow?",
                               f"Yesterday was {day}. {{What day is it today|What is today}}?"], f"The day after {day} is {after}."
        yield f"before {day}", [f"{{What|Which}} day {{comes before|is before}} {day}?", f"What is the day before {day}?",
                                f"If today is {day}, what day was yesterday?", f"Today is {day}. What was yesterday?",
                                f"Tell me the day before {day}.", f"{{Name|Give me|I need}} the day before {day}.",
                                f"{day} is today. What was yesterday?",
                                f"Tomorrow is {day}. {{What day is it today|What is today}}?",
                                f"day before {day}"], f"The day before {day} is {before}."
        yield f"number {day}", [f"{{What|Which}} {{is|day is}} the {_ORDINALS[i]} day of the week?", f"Tell me the {_ORDINALS[i]} day of the week.",
                                f"Name the {_ORDINALS[i]} day of the week."], f"The {_ORDINALS[i]} day of the week is {day}."
    yield "week", ["How many days {are in a week|does a week have|has a week|are there in a week}?", "Number of days in a week?"], \
        "A week has 7 days."
    yield "all", ["{Name|List|Tell me|What are|Say} {the|all} days of the week{?|.}", "{List|Name|Give me} the {seven|7} days.",
                  "Which days does a week have?"], "The days of the week are " + ", ".join(DAYS[:-1]) + " and " + DAYS[-1] + "."
    yield "weekend", ["{Which|What} days are {the|on the} weekend?", "What is the weekend?", "Name the days of the weekend."], \
        "The weekend is Saturday and Sunday."


def _months():
    for i, month in enumerate(MONTHS):
        after, before = MONTHS[(i + 1) % 12], MONTHS[i - 1]
        yield f"after {month}", [f"{{What|Which}} month {{comes after|follows|is after}} {month}?", f"What is the month after {month}?",
                                 f"{{Tell me|Name|Give me|I need}} the month {{after|that follows}} {month}.",
                                 f"next month after {month}"], f"The month after {month} is {after}."
        yield f"before {month}", [f"{{What|Which}} month {{comes before|is before}} {month}?", f"What is the month before {month}?",
                                  f"{{Tell me|Name|Give me|I need}} the month before {month}.",
                                  f"month before {month}"], f"The month before {month} is {before}."
        yield f"number {month}", [f"{{What|Which}} {{is|month is}} the {_ORDINALS[i]} month{{| of the year}}?",
                                  f"Name the {_ORDINALS[i]} month{{| of the year}}."], f"The {_ORDINALS[i]} month of the year is {month}."
        days = f"{month} has {DAYS_IN[month]} days" + (", or 29 in a leap year." if month == "February" else ".")
        yield f"length {month}", [f"How many days {{does {month} have|has {month}|are in {month}|are there in {month}}}?",
                                  f"How long is {month}?", f"Number of days in {month}?",
                                  f"{{Tell me|I need}} the {{length of|number of days in}} {month}.", f"days in {month}"], days
    yield "year", ["How many months {are in a year|does a year have|has a year|are there in a year}?", "Number of months in a year?"], \
        "A year has 12 months."
    yield "all", ["{Name|List|Tell me|What are|Say} {the|all} months{| of the year}{?|.}", "{List|Name|Give me} the {twelve|12} months."], \
        "The months are " + ", ".join(MONTHS[:-1]) + " and " + MONTHS[-1] + "."
    yield "days of a year", ["How many days {are in a year|does a year have|has a year|are there in a year}?"], \
        "A year has 365 days, or 366 in a leap year."


def _colours():
    for thing, colour in COLOUR_OF.items():
        subject = thing[0].upper() + thing[1:]
        yield thing, [f"{{What|Which}} {{colour|color}} {{is|has}} {thing}?", f"What is the {{colour|color}} of {thing}?",
                      f"Tell me the {{colour|color}} of {thing}.", f"{{colour|color}} of {thing}?"], f"{subject} is {colour}."
    for (a, b), mixed in COLOUR_MIX.items():
        for x, y in ((a, b), (b, a)):
            yield f"{x}+{y}", [f"What {{do you get|colour do you get|color do you get|happens}} if you mix {x} and {y}?",
                               f"Mix {x} and {y}.", f"What is {x} {{and|plus|mixed with}} {y}?",
                               f"What {{do|colour do|color do}} {x} and {y} make?"], \
                f"{x.capitalize()} and {y} make {mixed}."


def _capitals():
    of_capital = {}
    for country in (*CAPITALS, *_ALSO_CALLED):
        named = _ALSO_CALLED.get(country, country)
        city = CAPITALS[named]
        subject = country[0].upper() + country[1:]
        yield country, [f"{{What is|What's|Tell me|Name}} the capital {{of|city of}} {country}?", f"{{Which|What}} city is the capital of {country}?",
                        f"capital of {country}", f"What is {country}'s capital?", f"Do you know the capital of {country}?",
                        f"What is the name of the capital of {country}?", f"{subject}: what is the capital?",
                        f"{{Give me|I need}} the capital of {country}."], f"The capital of {named} is {city}."
        of_capital.setdefault(city, named)
    for city, country in of_capital.items():
        if city in ("London", "Singapore", "Luxembourg"):
            continue
        yield f"country of {city}", [f"{{What|Which}} country has the capital {city}?", f"{city} is the capital of {{what|which}} country?",
                                     f"Of {{what|which}} country is {city} the capital?", f"{{What|Which}} country is {city} the capital of?"], \
            f"{city} is the capital of {country}."


def _opposites():
    for word, opposite in _OPPOSITE_OF.items():
        yield word, [f"What is the opposite of {word}?", f"{{opposite|Opposite}} of {word}", f"{{Give|Tell}} me the opposite of {word}.",
                     f'{{What is|Name}} the opposite of "{word}"?', f"What's the opposite of {word}?", f"Which word is the opposite of {word}?",
                     f"I need the opposite of {word}."], f"The opposite of {word} is {opposite}."


def _plurals():
    for noun, plural in NOUNS.items():
        yield noun, [f"What is the plural of {noun}?", f"{{plural|Plural}} of {noun}", f"{{Give|Tell}} me the plural of {noun}.",
                     f'What is the plural of "{noun}"?', f"What's the plural of {noun}?", f"How do you write more than one {noun}?",
                     f"One {noun}, two ...?", f"Make {noun} plural.", f'{{Plural|Give me the plural}} of "{noun}".',
                     f'Make "{noun}" plural.'], f"The plural of {noun} is {plural}."


def _numbers_as_words():
    for number, word in enumerate(NUMBER_WORDS):
        yield f"word {number}", [f"{{Write|Spell}} {number} as a word.", f"How do you {{write|spell}} {number}?", f"What is {number} in words?"], \
            f"The number {number} is written {word}."


TASKS = {
    "days": closed_task("days", "exact", 1.6, _days()),
    "months": closed_task("months", "exact", 2.2, _months()),
    "colours": closed_task("colours", "exact", 1.4, _colours()),
    "capitals": closed_task("capitals", "exact", 4.5, _capitals()),
    "opposites": closed_task("opposites", "exact", 2.2, _opposites()),
    "plurals": closed_task("plurals", "exact", 2.6, _plurals()),
    "number_words": closed_task("number_words", "exact", 0.4, _numbers_as_words()),
}

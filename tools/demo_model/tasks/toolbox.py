"""The tools that conversations offer. Names of tools and parameters vary, so that a call has to be read from the list that is given."""

from dataclasses import dataclass

from words import CITIES, FOODS, MEALS, THINGS, any_name, article

from .extract import any_city

_ROOMS = "kitchen bedroom bathroom garden office hall garage cellar".split()
_GENRES = "jazz rock folk classical piano dance guitar blues".split()
_MONEY = "euros dollars pounds yen francs rupees".split()
_TASKS = ("water the flowers|call the doctor|buy bread|feed the cat|clean the kitchen|wash the car|write a letter|read a book|"
          "pay the bill|walk the dog|bake a cake|close the window").split("|")
_TEXTS = ("dinner is ready|the train is late|see you tomorrow|happy birthday|the door is open|good luck|I am at home|the soup is hot|"
          "we start at noon|the car is clean|call me soon|the meeting is over").split("|")
_SKY = "sunny cloudy rainy windy foggy snowy".split()
_THING_NAMES, _THINGS_MANY, _FOODS_MANY = tuple(THINGS), tuple(THINGS.values()), tuple(FOODS.values())
_GOODS = tuple({**THINGS, **FOODS})
_QUERY_ADJECTIVES = "red blue old cheap small big green new".split()


@dataclass(frozen=True)
class Tool:
    """parameters: (names to choose from, type, value drawn as values(rng)[i]). answer(values, result) tells the user what came back."""

    names: tuple
    description: str
    parameters: tuple
    values: object
    asks: tuple
    result: object
    answer: object


def _two_cities(rng):
    return tuple(rng.sample(CITIES, 2))


def _ok(_rng, _values):
    return {"ok": True}


TOOLBOX = {
    "weather": Tool(("get_weather", "weather", "current_weather", "weather_now"), "Weather of a city", ((("city", "location", "place"), "string"),),
                    lambda r: (any_city(r),),
                    ("What is the weather in {0}?", "How is the weather in {0}?", "weather in {0}", "Tell me the weather in {0}.",
                     "Is it raining in {0}?",
                     "What is the weather like in {0}?", "How warm is it in {0}?"),
                    lambda r, v: {"temperature": r.randrange(0, 36), "sky": r.choice(_SKY)},
                    lambda v, x: f"It is {x['temperature']} degrees and {x['sky']} in {v[0]}."),
    "time": Tool(("get_time", "time_in", "clock", "local_time"), "Time in a city", ((("city", "place", "location"), "string"),),
                 lambda r: (any_city(r),),
                 ("What time is it in {0}?", "Tell me the time in {0}.", "How late is it in {0}?", "time in {0}", "What is the time in {0}?"),
                 lambda r, v: {"time": f"{r.randrange(24):02d}:{r.randrange(60):02d}"}, lambda v, x: f"It is {x['time']} in {v[0]}."),
    "multiply": Tool(("multiply", "times", "product"), "Multiply two numbers", ((("a", "x", "first"), "integer"), (("b", "y", "second"), "integer")),
                     lambda r: (r.randrange(2, 100), r.randrange(2, 100)),
                     ("What is {0} times {1}?", "Multiply {0} and {1}.", "{0} * {1}", "What is {0} * {1}?", "How much is {0} times {1}?"),
                     lambda r, v: {"result": v[0] * v[1]}, lambda v, x: f"{v[0]} times {v[1]} is {x['result']}."),
    "timer": Tool(("set_timer", "start_timer", "timer"), "Start a timer", ((("minutes", "duration", "time"), "integer"),),
                  lambda r: (r.randrange(2, 61),),
                  ("Set a timer for {0} minutes.", "Start a timer of {0} minutes.", "timer {0} minutes", "Wake me in {0} minutes.",
                   "I need a timer for {0} minutes."),
                  _ok, lambda v, x: f"The timer is set for {v[0]} minutes."),
    "message": Tool(("send_message", "message", "send_text", "write_message"), "Send a message to a person",
                    ((("to", "name", "person"), "string"), (("text", "message", "content"), "string")), lambda r: (any_name(r), r.choice(_TEXTS)),
                    ("Send a message to {0}: {1}", "Write to {0}: {1}", "Tell {0}: {1}", "Send {0} this message: {1}", "Text {0}: {1}"),
                    _ok, lambda v, x: f"I sent the message to {v[0]}."),
    "light": Tool(("set_light", "switch_light", "light", "control_light"), "Switch a light on or off",
                  ((("room", "place", "where"), "string"), (("state", "value", "switch"), "string")),
                  lambda r: (r.choice(_ROOMS), r.choice(("on", "off"))),
                  ("Turn {1} the light in the {0}.", "Switch {1} the light in the {0}.", "Turn the light in the {0} {1}.",
                   "Light {1} in the {0}, please.",
                   "{0} light {1}"), _ok, lambda v, x: f"The light in the {v[0]} is {v[1]}."),
    "music": Tool(("play_music", "play", "music", "start_music"), "Play music", ((("genre", "style", "kind"), "string"),),
                  lambda r: (r.choice(_GENRES),),
                  ("Play some {0} music.", "Play {0} music.", "I want to hear {0} music.", "Put on some {0} music.", "Can you play {0} music?"),
                  _ok, lambda v, x: f"I am playing {v[0]} music."),
    "convert": Tool(("convert_money", "convert_currency", "exchange", "currency"), "Convert money",
                    ((("amount", "value", "number"), "integer"), (("from", "source", "from_currency"), "string"),
                     (("to", "target", "to_currency"), "string")),
                    lambda r: (r.randrange(2, 1000), *r.sample(_MONEY, 2)),
                    ("Convert {0} {1} to {2}.", "How much are {0} {1} in {2}?", "Change {0} {1} into {2}.", "{0} {1} in {2}",
                     "What are {0} {1} in {2}?"),
                    lambda r, v: {"amount": r.randrange(2, 2000)}, lambda v, x: f"{v[0]} {v[1]} are {x['amount']} {v[2]}."),
    "reminder": Tool(("set_reminder", "remind", "add_reminder", "reminder"), "Remind the user of something",
                     ((("text", "task", "what"), "string"), (("hour", "time", "at"), "integer")), lambda r: (r.choice(_TASKS), r.randrange(1, 13)),
                     ("Remind me to {0} at {1}.", "Set a reminder to {0} at {1}.", "At {1} I have to {0}. Remind me.",
                      "Please remind me to {0} at {1}.",
                      "I must {0} at {1}. Set a reminder."), _ok, lambda v, x: f"I will remind you to {v[0]} at {v[1]}."),
    "search": Tool(("search", "web_search", "find", "search_web"), "Search the web", ((("query", "text", "q"), "string"),),
                   lambda r: (r.choice(_QUERY_ADJECTIVES) + " " + r.choice(_THINGS_MANY),),
                   ("Search for {0}.", "Search the web for {0}.", "Look for {0}.", "Find {0}.", "Can you search for {0}?"),
                   lambda r, v: {"hits": r.randrange(2, 500)}, lambda v, x: f"I found {x['hits']} results for {v[0]}."),
    "restaurant": Tool(("find_restaurant", "restaurant", "search_restaurant"), "Find a restaurant",
                       ((("food", "dish", "meal"), "string"), (("city", "place", "location"), "string")), lambda r: (r.choice(MEALS), any_city(r)),
                       ("Find a restaurant with {0} in {1}.", "Where can I eat {0} in {1}?", "I want to eat {0} in {1}.", "Find {0} in {1}.",
                        "Which restaurant in {1} has {0}?"),
                       lambda r, v: {"name": any_name(r)}, lambda v, x: f"You can eat {v[0]} at {x['name']} in {v[1]}."),
    "price": Tool(("get_price", "price", "price_of", "cost"), "Price of a thing", ((("item", "product", "thing"), "string"),),
                  lambda r: (r.choice(_GOODS),),
                  ("What is the price of the {0}?", "How much is the {0}?", "How much does the {0} cost?", "price of the {0}",
                   "Tell me the price of the {0}."),
                  lambda r, v: {"price": r.randrange(1, 300)}, lambda v, x: f"The {v[0]} costs {x['price']} dollars."),
    "person": Tool(("get_user", "find_user", "user_info", "lookup_person"), "Data of a person", ((("name", "user", "person"), "string"),),
                   lambda r: (any_name(r),),
                   ("Look up {0}.", "Find the user {0}.", "How old is {0}?", "Where does {0} live?", "Tell me about {0}."),
                   lambda r, v: {"age": r.randrange(18, 90), "city": any_city(r)}, lambda v,
                   x: f"{v[0]} is {x['age']} years old and lives in {x['city']}."),
    "heating": Tool(("set_temperature", "heating", "set_heating"), "Set the temperature of a room",
                    ((("room", "place", "where"), "string"), (("degrees", "temperature", "value"), "integer")),
                    lambda r: (r.choice(_ROOMS), r.randrange(10, 31)),
                    ("Set the {0} to {1} degrees.", "Heat the {0} to {1} degrees.", "Make the {0} {1} degrees warm.",
                     "I want {1} degrees in the {0}.", "{0} {1} degrees"),
                    _ok, lambda v, x: f"The {v[0]} is set to {v[1]} degrees."),
    "shopping": Tool(("add_to_list", "shopping_list", "add_item", "buy_later"), "Put something on the shopping list",
                     ((("item", "thing", "what"), "string"), (("count", "number", "amount"), "integer")),
                     lambda r: (r.choice(_FOODS_MANY), r.randrange(2, 30)),
                     ("Add {1} {0} to my shopping list.", "Put {1} {0} on the list.", "I need {1} {0} on my shopping list.",
                      "Add {1} {0} to the list.", "shopping list: {1} {0}"),
                     _ok, lambda v, x: f"{v[1]} {v[0]} are on the list."),
    "distance": Tool(("get_distance", "distance", "how_far"), "Distance between two cities",
                     ((("from", "start", "a"), "string"), (("to", "end", "b"), "string")), _two_cities,
                     ("How far is it from {0} to {1}?", "What is the distance from {0} to {1}?", "distance from {0} to {1}",
                      "How many km from {0} to {1}?",
                      "Tell me the distance between {0} and {1}."),
                     lambda r, v: {"km": r.randrange(50, 9000)}, lambda v, x: f"It is {x['km']} km from {v[0]} to {v[1]}."),
    "dice": Tool(("roll_dice", "dice", "roll"), "Roll a die", ((("sides", "faces", "n"), "integer"),),
                 lambda r: (r.choice((4, 6, 8, 10, 12, 20, 30, 100)),),
                 ("Roll a die with {0} sides.", "Throw a die with {0} sides.", "Roll a {0}-sided die.", "I need a die with {0} sides.",
                  "Roll {0} sides"),
                 lambda r, v: {"value": r.randrange(1, v[0] + 1)}, lambda v, x: f"You rolled {x['value']}."),
    "book": Tool(("borrow", "lend_item", "borrow_item"), "Borrow a thing from the library",
                 ((("item", "thing", "what"), "string"), (("days", "duration", "length"), "integer")),
                 lambda r: (r.choice(_THING_NAMES), r.randrange(2, 31)),
                 ("I want to borrow {2} for {1} days.", "Borrow {2} for {1} days.", "Can I borrow {2} for {1} days?",
                  "Please lend me {2} for {1} days."),
                 _ok, lambda v, x: f"You have the {v[0]} for {v[1]} days."),
}


def ask_text(wording: int, tool: Tool, values: tuple) -> str:
    """One wording; {2} of a two-value tool is its first value with an article."""
    shown = (*values, article(values[0])) if len(values) == 2 and isinstance(values[0], str) else values
    text = tool.asks[wording].format(*shown)
    return text[0].upper() + text[1:] if text[0].isalpha() and text.endswith((".", "?")) else text


def offer(rng, concept: str):
    """The tool as a request offers it, and the names of its parameters in order."""
    tool = TOOLBOX[concept]
    names = [rng.choice(choices) if rng.random() < 0.5 else choices[0] for choices, _ in tool.parameters]
    properties = {name: {"type": kind} for name, (_, kind) in zip(names, tool.parameters)}
    function = {"name": rng.choice(tool.names) if rng.random() < 0.6 else tool.names[0], "description": tool.description,
                "parameters": {"type": "object", "properties": properties, "required": names}}
    return {"type": "function", "function": function}, names

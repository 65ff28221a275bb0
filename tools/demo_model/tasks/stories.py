"""Short stories that use two or three given words: a hero, a thing, and perhaps a place."""

from words import ANIMALS, FOODS, NAMES, THINGS, any_name, article, join_and

from .core import Task, splitting, turn

_PEOPLE = ("king", "queen", "princess", "robot", "dragon", "girl", "boy", "child", "giant", "pirate", "wizard")
_HEROES = (*ANIMALS, *_PEOPLE)
_FRIENDS = ("cat", "dog", "fox", "bear", "mouse", "owl", "rabbit", "duck", "frog", "goat", "horse", "hen")
_PLACES = ("forest", "garden", "harbour", "village", "valley", "meadow", "castle", "market", "farm", "beach", "library", "park", "island", "river",
           "mountain", "city")
# thing: (what is done with it, the problem that this solves)
_THINGS = {
    "boat": ("crossed the water", "The water was too wide to swim."), "rope": ("climbed the wall", "The wall was too high to jump."),
    "lamp": ("lit the dark cave", "It was too dark to see."), "map": ("found the way home", "Every path looked the same."),
    "key": ("opened the gate", "The gate was locked."), "basket": ("carried all the apples", "There were too many apples for two hands."),
    "kite": ("sent a message over the hill", "The hill was too steep."), "drum": ("woke the whole village", "Everyone was fast asleep."),
    "ladder": ("reached the nest", "The nest was high up in a tree."), "blanket": ("kept the little bird warm", "The little bird was cold."),
    "whistle": ("called for help", "Nobody could hear a voice so far away."), "bucket": ("watered the dry flowers", "The flowers hung their heads."),
    "bell": ("called everyone to dinner", "Nobody knew that the soup was ready."), "candle": ("lit the dark room", "The night came early."),
    "book": ("read a story to the children", "The children could not sleep."), "hat": ("gave shade to the snail", "The sun was too hot."),
    "cake": ("made everyone smile", "Nobody had planned a party."), "umbrella": ("kept the eggs dry", "It began to rain."),
    "ball": ("started a merry game", "Everyone was bored."), "flower": ("cheered up a sad friend", "A friend had lost a coin."),
    "stone": ("held the door open", "The wind kept shutting the door."), "bag": ("took the letters to town", "The letters had to reach the town."),
}
# Other things have no use of their own: any of these will do.
_ANY_USE = (("made a sad friend laugh", "A friend was very sad."), ("won the game", "The game was hard to win."),
            ("showed it to everyone", "Nobody had ever seen such a thing."), ("gave it to an old friend", "It was the birthday of an old friend."))
_NO_STORY = set("country city baby child man woman foot tooth wife hand river island garden story house yard leaf cloud star engine shelf".split())
_OTHER_THINGS = tuple(word for word in (*THINGS, *FOODS) if word not in _THINGS and word not in _NO_STORY)
_THING_NAMES = tuple(_THINGS)
_TRAITS = "brave kind curious clever patient cheerful shy careful small young".split()
_DAY = ("One sunny morning", "One windy day", "One cold evening", "One quiet afternoon", "One bright day", "One rainy morning")
_END = ("Everyone was happy.", "All of them laughed.", "It was a good day.", "From that day they were friends.",
        "Then they went home and slept well.")
_ASKS = ("Tell me a story about {x}.", "Write a short story about {x}.", "Tell me a short story with {x}.", "Write a story with the words {w}.",
         "Make a story from these words: {w}", "I want a story about {x}.", "Please tell a story about {x}.",
         "Write a short story with the words {w}.",
         "story about {x}", "Can you tell me a story about {x}?")
_ASKS_FREE = ("Tell me a story.", "Write a short story.", "Please tell me a story.", "Can you tell me a story?", "I want to hear a story.",
              "story please",
              "Tell me another story.")


def _story(rng, hero, thing, place) -> str:
    """The hero is a kind of animal or person, or a name."""
    c = rng.choice
    use, problem = _THINGS[thing] if thing in _THINGS else c(_ANY_USE)
    where = ("on the " if place in ("island", "beach", "farm", "mountain") else "by the " if place in ("river", "harbour") else "in the ") + place
    name = hero if hero[0].isupper() else c(NAMES) if rng.random() < 0.4 else None
    kind = c(("child", "girl", "boy")) if hero[0].isupper() else hero
    who = name or f"the {hero}"
    start = f"Once there was {article(c(_TRAITS))} {kind} " + (f"called {name} " if name else "") + f"who lived {where}."
    found = c((f"{c(_DAY)} {who} found {article(thing)}.", f"{c(_DAY)} a friend gave {who} {article(thing)}.",
               f"{c(_DAY)} {who} saw {article(thing)} in the grass."))
    friend = c([f for f in _FRIENDS if f != hero])
    meet = c((f"Then {article(friend)} came and asked for help.", f"Then {article(friend)} came along.",
              f"Near by sat {article(friend)} who needed help."))
    solves = [f"{who[0].upper() + who[1:]} took the {thing} and {use}.", f"So {who} took the {thing} and {use}."]
    if " it " not in use:  # "With the kite Tom gave it away" would name the thing twice.
        solves.append(f"With the {thing} {who} {use}.")
    solve = c(solves)
    thanks = c((f"The {friend} said thank you.", f'"Thank you!" said the {friend}.'))
    return " ".join((start, found, meet, problem, solve, thanks, c(_END)))


def _with_article(word: str) -> str:
    return word if word[0].isupper() else article(word)


def _propose(rng):
    hero = any_name(rng) if rng.random() < 0.12 else rng.choice(_HEROES)
    thing = rng.choice(_THING_NAMES) if rng.random() < 0.6 else rng.choice(_OTHER_THINGS)
    place = rng.choice(_PLACES)
    r = rng.random()
    if r < 0.1:
        hero = rng.choice(_HEROES)  # A name is used only where it is given, so that the rule about words is exact.
    if r < 0.06:
        ask = rng.choice(_ASKS_FREE)
        # Any story will do here, so the key is the story; only the rule about words applies.
        return f"free|{ask}|{hero} {thing} {place}", turn(ask, _story(rng, hero, thing, place)), {"given": []}
    if r < 0.14:
        given = [thing if r < 0.1 else hero]
        ask = rng.choice([a for a in _ASKS if "{x}" in a])
        return f"{given[0]}|{ask}", turn(ask.format(x=_with_article(given[0])), _story(rng, hero, thing, place)), {"given": given}
    given = [hero, thing] if r < 0.58 else [hero, thing, place] if r < 0.9 else [hero, place]
    shown = rng.sample(given, len(given)) if rng.random() < 0.3 else given
    ask = rng.choice(_ASKS)
    text = ask.format(x=join_and(map(_with_article, shown)), w=join_and(shown))
    return " ".join(given), turn(text, _story(rng, hero, thing, place)), {"given": given}


def _words_of(text: str) -> set:
    return set("".join(ch if ch.isalpha() else " " for ch in text.lower()).split())


def _vocabulary() -> set:
    parts = [*_HEROES, *_PLACES, *_THINGS, *_OTHER_THINGS, *_TRAITS, *_DAY, *_END, *NAMES]
    parts += [text for pair in (*_THINGS.values(), *_ANY_USE) for text in pair]
    parts.append("Once there was a an who lived in on by the called found friend gave saw grass Then came and asked for help along Near sat needed "
                 "took So With said thank you")
    return _words_of(" ".join(parts))


_KNOWN = _vocabulary()


def _check(case: dict, answer: str) -> bool:
    """names every given word, has 4 to 9 sentences, ends with a full stop, and uses only words of the story grammar"""
    words, answer = _words_of(answer), answer.strip()
    given = _words_of(" ".join(case["given"]))
    sentences = answer.count(".") + answer.count("!")
    return (given <= words and 4 <= sentences <= 9 and answer.endswith(".") and words <= _KNOWN | given
            and answer.startswith("Once there was a"))


TASKS = {"story": Task("open", 8, splitting("story", "open", _propose), _check)}

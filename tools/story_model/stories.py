"""Short stories and conversations made from word lists and a small plot grammar.

Everything here is our own text. A story has a hero, a friend, a place, a thing and a problem that the thing solves, so that
the model has something to keep track of over a hundred tokens.
"""

import random

NAMES = ["Mia", "Tom", "Lena", "Sam", "Nora", "Ben", "Ida", "Leo", "Ada", "Finn", "Rosa", "Max", "Ella", "Otto", "Zoe", "Karl"]
ANIMALS = ["cat", "dog", "fox", "bear", "mouse", "owl", "rabbit", "duck", "frog", "goat", "horse", "hen"]
PLACES = ["forest", "garden", "harbour", "village", "valley", "meadow", "castle", "market", "farm", "beach", "library", "park"]
WEATHER = ["sunny", "windy", "rainy", "cold", "warm", "foggy", "quiet", "bright"]
THINGS = {
    "boat": ("cross the river", "The water was too wide to swim."),
    "rope": ("climb the wall", "The wall was too high to jump."),
    "lamp": ("light the cave", "It was too dark to see."),
    "map": ("find the way home", "Every path looked the same."),
    "key": ("open the gate", "The gate was locked."),
    "basket": ("carry the apples", "There were too many apples for two hands."),
    "kite": ("send a message over the hill", "The hill was too steep to climb."),
    "drum": ("wake the whole village", "Everyone was fast asleep."),
    "ladder": ("reach the nest", "The nest was high up in the tree."),
    "blanket": ("keep the little bird warm", "The little bird was shaking with cold."),
    "whistle": ("call for help", "Nobody could hear a voice so far away."),
    "bucket": ("water the dry flowers", "The flowers hung their heads."),
}
COLOURS = ["red", "blue", "green", "yellow", "white", "brown", "black", "purple"]
TRAITS = ["brave", "kind", "curious", "clever", "patient", "cheerful", "shy", "careful"]
FEELINGS = ["happy", "proud", "glad", "thankful"]
LESSONS = [
    "It is good to share.",
    "Two can do what one cannot.",
    "A small thing can be a big help.",
    "It is never too late to try again.",
    "A friend is worth more than gold.",
    "Asking for help is not a weakness.",
]
OPENINGS = ["Once upon a time", "One day", "A long time ago", "One {weather} morning"]


def article(word):
    return ("an " if word[0] in "aeiou" else "a ") + word


def story(rng, hero_kind=None, thing=None, place=None):
    """Returns (hero kind, thing, place, text)."""
    hero = rng.choice(NAMES)
    friend = rng.choice([n for n in NAMES if n != hero])
    hero_kind = hero_kind or rng.choice(ANIMALS)
    friend_kind = rng.choice([a for a in ANIMALS if a != hero_kind])
    place = place or rng.choice(PLACES)
    thing = thing or rng.choice(list(THINGS))
    colour, trait = rng.choice(COLOURS), rng.choice(TRAITS)
    goal, problem = THINGS[thing]
    opening = rng.choice(OPENINGS).format(weather=rng.choice(WEATHER))
    parts = [
        f"{opening}, {article(trait)} {hero_kind} named {hero} lived near the {place}."
        if rng.random() < 0.5
        else f"{opening}, there was {article(trait)} {hero_kind}. The name of the {hero_kind} was {hero}, and {hero} lived near the {place}.",
        rng.choice([
            f"{hero} had a {colour} {thing} and took it everywhere.",
            f"The best thing that {hero} had was a {colour} {thing}.",
        ]),
        rng.choice([
            f"One {rng.choice(WEATHER)} day {hero} met {friend} the {friend_kind}.",
            f"{hero} had a friend, {friend} the {friend_kind}.",
        ]),
        f'"I want to {goal}," said {friend}, "but I do not know how."',
        problem,
        rng.choice([
            f'"We can use my {thing}!" said {hero}.',
            f'{hero} thought for a while. "My {colour} {thing} can help us," said {hero}.',
        ]),
        rng.choice([
            f"They took the {thing} and worked together until it was done.",
            f"So they used the {colour} {thing}, and it worked.",
            f"First it did not work. They tried again, and then it did.",
        ]),
        rng.choice([
            f"{friend} was very {rng.choice(FEELINGS)} and gave {hero} a big hug.",
            f'"Thank you, {hero}," said {friend}. Both were {rng.choice(FEELINGS)}.',
        ]),
    ]
    if rng.random() < 0.6:
        parts.append(rng.choice(LESSONS))
    parts.append(rng.choice(["The end.", "And they were friends for ever.", "Then they went home for dinner."]))
    return hero_kind, thing, place, " ".join(parts)


ABOUT = [
    (["Who are you?", "What are you?", "What is your name?", "Tell me about yourself."],
     "I am a tiny story model that comes with Coxswain. I tell short stories."),
    (["What can you do?", "How can you help me?", "Help!", "What do you know?"],
     "I can tell a short story. Name an animal, a thing and a place, and I will try."),
    (["Hello!", "Hi!", "Hi there.", "Good morning.", "Hello, how are you?", "Hey"],
     "Hello! Shall I tell you a story?"),
    (["Thank you!", "Thanks.", "That was nice.", "Great story!"],
     "You are welcome. Shall I tell you another story?"),
    (["Bye!", "Goodbye.", "See you later."], "Goodbye! Come back for another story."),
    (["What is Coxswain?", "What is this server?"],
     "Coxswain is a server for large language models. It runs on a CPU with nothing else installed."),
]
ASK = [
    "Tell me a story about {a}{b}{c}.", "Please tell me a story about {a}{b}{c}.", "Write a story about {a}{b}{c}.",
    "Can you tell a story about {a}{b}{c}?", "I want a story about {a}{b}{c}.", "A story about {a}{b}{c}, please.",
]
ASK_ANY = ["Tell me a story.", "Tell me another story.", "Please tell a short story.", "Yes, please.", "Write a story.", "Yes!", "Another one, please."]


def exchange(rng):
    """One question and its answer."""
    kind = rng.random()
    if kind < 0.25:
        questions, answer = rng.choice(ABOUT)
        return rng.choice(questions), answer
    hero_kind, thing, place, text = story(rng)
    if kind < 0.4:
        return rng.choice(ASK_ANY), text
    use_thing, use_place = rng.random() < 0.6, rng.random() < 0.4
    question = rng.choice(ASK).format(
        a=article(hero_kind),
        b=f" and {article(thing)}" if use_thing else "",
        c=f" in the {place}" if use_place else "",
    )
    return question, text


def document(rng):
    """One training text, with the markers of the chat template for conversations."""
    if rng.random() < 0.3:
        return story(rng)[3] + "<|end|>"
    turns = []
    if rng.random() < 0.3:
        turns.append("<|system|>\nYou are a helpful assistant.<|end|>\n")
    for _ in range(rng.choice([1, 1, 2])):
        question, answer = exchange(rng)
        turns.append(f"<|user|>\n{question}<|end|>\n<|assistant|>\n{answer}<|end|>\n")
    return "".join(turns)


def documents(seed, count):
    rng = random.Random(seed)
    return [document(rng) for _ in range(count)]

"""Everything else: the model says politely that it is tiny. Unknown topics, other languages, gibberish, emoji, nothing, long texts."""

import string

from words import ADJECTIVES, ANIMALS, FOODS, NOUNS, PREPOSITIONS, THINGS, VERBS, made_up_name

from .core import Task, decorate, splitting, turn

UNKNOWN = "I am sorry, I am a tiny demo model and do not know that. Ask me about Coxswain, sums, lists or capitals."
LANGUAGE = "I am sorry, I am a tiny demo model and only understand English."
UNCLEAR = "I am sorry, I am a tiny demo model and do not understand that."
SUMS = "I am sorry, I am a tiny demo model. I add and subtract two numbers up to 999."
EMPTY = "Your message is empty. I am a tiny demo model. Ask me something!"
LONG = "That is a long text. I am a tiny demo model and cannot work with it."

_TOPICS = ("quantum physics|black holes|gravity|the moon|the planet Mars|evolution|DNA|atoms|chemistry|biology|climate change|the weather|"
           "the stock market|money|taxes|inflation|politics|the election|the president|the government|history|the Roman Empire|"
           "the French Revolution|the Second World War|ancient Egypt|philosophy|the meaning of life|love|happiness|religion|music|jazz|"
           "the piano|Mozart|Beethoven|painting|modern art|Shakespeare|poetry|movies|football|the Olympic Games|chess|cooking|"
           "a chocolate cake recipe|bread|diets|vitamins|health|a headache|the heart|sleep|dreams|cars|electric cars|airplanes|rockets|"
           "trains|ships|computers|the internet|Linux|Windows|Python|JavaScript|Rust|databases|SQL|Kubernetes|blockchain|bitcoin|"
           "neural networks|machine learning|robots|cameras|phones|video games|dinosaurs|volcanoes|earthquakes|oceans|rivers|mountains|"
           "deserts|rain forests|wolves|bees|cats|trees|roses|gardens|farming|schools|universities|exams|job interviews|marriage|children|"
           "travel|hotels|London|New York|Japan|the law|contracts|insurance|banks|houses|fashion|shoes|coffee|tea|wine|beer|birthdays|"
           "Christmas|new year|time travel|aliens|ghosts|magic").split("|")
_ABOUT = ("Explain {t}.", "Tell me about {t}.", "What do you know about {t}?", "What is {t}?", "Write an essay about {t}.", "Write a poem about {t}.",
          "How does {t} work?", "Give me three facts about {t}.", "Why is {t} important?", "What do you think about {t}?",
          "Tell me a joke about {t}.",
          "Who invented {t}?", "I want to learn about {t}.", "Can you explain {t}?", "Write a song about {t}.", "Give me an article about {t}.",
          "Describe {t}.", "What is the history of {t}?", "Do you like {t}?", "Summarise {t} for me.", "Help me with {t}.", "Is {t} good or bad?",
          "What is the best book about {t}?", "Teach me {t}.", "How do I learn {t}?")
_OTHER = ("Who is the {role} of {place}?", "When was {place} founded?", "How many people live in {place}?", "How far is {place} from here?",
          "Write a {lang} program that {does}.", "Write code that {does}.", "How do I {does} in {lang}?", "Fix this {lang} code.",
          "What time is it in {place}?",
          "What is the weather in {place}?", 
          "Translate {noun} to {tongue}.", "How do you say {noun} in {tongue}?", "Where can I buy {noun}s?",
          "How much does a {noun} cost?", "Who wrote the book {name}?", "Who is {name}?", "Where is {name}?", "What is the capital of {name}?",
          "What does {name} mean?",
          "Do you know {name}?", "How do I make a {noun}?", "What is the phone number of {name}?", "Recommend a {noun} for me.", "Draw a {noun}.",
          "Show me a picture of a {noun}.", "Play a song.", "Open the door.", "Send an email to {name}.", "Tell me a joke.", "Sing a song.",
          "What is the news today?",
          "What day is it today?", "What time is it?", "What is the date today?", "Where am I?", "How tall is {name}?", "Is it raining?",
          "Book a flight to {place}.",
          "Who won the game yesterday?", "What should I eat today?", "What should I wear?", "Can you drive a {noun}?",
          "Is a {noun} heavier than a {other}?",
          "Why do {noun}s {verb}?", "Think of a number.", "Solve x + {n} = {m}.", "Prove that {n} is prime.", "Is {n} a prime number?",
          "Guess my age.")
_ROLES = "king queen president mayor prime-minister founder owner".split()
_PLACES = "France Berlin Rome Chicago Spain Tokyo India Brazil Paris London Kenya Canada Hamburg Boston Mars China".split()
_LANGS = "Python Java Rust Go C++ JavaScript C Ruby Perl Swift".split()
_DOES = ("sort a list|read a file|print hello|open a window|draw a circle|parse JSON|find prime numbers|send a request|reverse a string|count words|"
         "compute a hash|make a web page").split("|")
_TONGUES = "German French Spanish Italian Latin Chinese Japanese Russian".split()
_MANY_NOUNS = tuple({**FOODS, **THINGS, **ANIMALS})
_PLAIN_VERBS = "sleep sing run jump swim fly dance wait".split()

# Words of other languages, put together at random: the model only has to see that it is not English.
_FOREIGN = [words.split() for words in (
    "wie geht es dir was ist das ich bin ein der die und heute nicht wo kannst du mir bitte "
    "helfen warum haben wir das Wetter guten Tag Hauptstadt von wer bist heißt für können schön über",
    "comment vas tu que est ce je suis une le la et avec pour bonjour pourquoi "
    "nous avons merci beaucoup capitale de la quel qui es tu sais pas mon ça où être français déjà très",
    "como estas que es esto yo soy una el la y con para buenos dias "
    "por favor donde nosotros gracias capital de quien eres puedes hoy cómo estás qué mañana español ¿cuál",
    "come stai che cosa io sono una il la e con per buongiorno dove perche noi grazie capitale di chi sei puoi aiutarmi oggi perché città è più",
    "como vai voce o que eu sou uma os as com para bom dia onde nosso obrigado qual quem hoje ajudar mim muito você não está são",
    "hoe gaat het met jou wat is dat ik ben een de en niet waar kun je mij helpen waarom wij hebben goedendag hoofdstad van wie",
    "hur mar du mår är på vad heter jag ar en och inte var kan hjalpa mig varfor vi har god dag huvudstad vem",
    "jak sie masz co to jest ja jestem i nie gdzie prosze dlaczego my mamy dzien dobry stolica kto dzisiaj moj się proszę dzień mój",
    "nasilsin bu ne ben bir ve degil nerede lutfen neden biz var gunaydin baskent kim bugun sen benim nasılsın günaydın değil bugün",
)]
# First and last code points of letters of other scripts.
_SCRIPTS = ((0x430, 0x44F, 7), (0x3B1, 0x3C9, 7), (0x627, 0x64A, 6), (0x5D0, 0x5EA, 6), (0x4E00, 0x9FA5, 9), (0x3042, 0x3093, 9), (0xAC00, 0xD7A3, 5),
            (0x905, 0x939, 6), (0xE01, 0xE2E, 9))
_KEYS = string.ascii_letters + string.digits + "#%&/()=;:_-<>{}[]"
_EMOJI = tuple("😀😂😍😎🤔😢😡👍👎🙏👋🎉🔥💡❤⭐🌍🌞🌧🐱🐶🦊🐻🍎🍕🍰⚽🎵🚗✈🚀🏠📚💻📱🔑⏰🎁💤💯")


def _unknown(rng):
    c = rng.choice
    if rng.random() < 0.55:
        text = c(_ABOUT).format(t=c(_TOPICS))
    else:
        noun = c(_MANY_NOUNS)
        text = c(_OTHER).format(role=c(_ROLES), place=c(_PLACES), lang=c(_LANGS), does=c(_DOES), n=rng.randrange(2, 100), m=rng.randrange(2, 100),
                                noun=noun,
                                other=c(_MANY_NOUNS), tongue=c(_TONGUES), name=made_up_name(rng), verb=c(_PLAIN_VERBS))
    return text, turn(decorate(rng, text), UNKNOWN)


def _foreign(rng):
    if rng.random() < 0.6:
        words = rng.choice(_FOREIGN)
        text = " ".join(rng.sample(words, rng.randrange(3, 8)))
        text = text[0].upper() + text[1:] + rng.choice(("?", ".", ""))
    else:
        first, last, longest = rng.choice(_SCRIPTS)
        low = rng.randrange(first, last)
        span = (first, last) if last - first < 200 else (low, min(last, low + 2000))
        sizes = [rng.randrange(2, longest) for _ in range(rng.randrange(1, 5))]
        text = " ".join("".join(chr(rng.randint(*span)) for _ in range(size)) for size in sizes) + rng.choice(("?", ""))
    return text, turn(text, LANGUAGE)


def _gibberish(rng):
    r = rng.random()
    if r < 0.4:
        text = "".join(rng.choices(string.ascii_lowercase, k=rng.randrange(4, 14)))
        if rng.random() < 0.4:
            text += " " + "".join(rng.choices(string.ascii_lowercase, k=rng.randrange(3, 9)))
    elif r < 0.6:
        text = rng.choice("asdfhjkqwxz?!#*+/$%&") * rng.randrange(3, 20)
    elif r < 0.8:
        text = "".join(rng.choices(_EMOJI, k=rng.randrange(1, 6)))
    else:
        text = "".join(rng.choices(_KEYS, k=rng.randrange(6, 25)))
    return text, turn(text, UNCLEAR)


_SUMS = ("What is {n} times {m}?", "What is {n} * {m}?", "What is {n} / {m}?", "What is the square root of {n}?", "Divide {n} by {m}.", "{n} x {m}",
         "{n}*{m}",
         "{n}/{m}", "Multiply {n} by {m}.", "{n} + {m} + {k}", "What is {n} + {m} - {k}?", "What is {n} * {m} + {k}?", "What is {b} + {m}?",
         "{b} + {c}",
         "What is {b} - {n}?", "{b} - {c}", "{n} + {b}", "What is {b} + {c}?", "{n}.{k} + {m}", "What is {n} percent of {m}?", "{b}+{c}", "{c}-{b}",
         "Add {b} and {c}.", "Subtract {n} from {b}.", "What is {n} squared?", "How much is {b} plus {c}?")


def _sums(rng):
    small, big = rng.choice((20, 100, 1000)), rng.choice((10000, 10000, 100000, 1000000))
    text = rng.choice(_SUMS).format(n=rng.randrange(2, small), m=rng.randrange(2, small), k=rng.randrange(1, 100), b=rng.randrange(1000, big),
                                    c=rng.randrange(1000, big))
    return text, turn(text, SUMS)


_EMPTY = ["", " ", "  ", "   ", "\n", "\n\n", " \n", "\t", "...", "?", "!", ".", "??", "-", "..", "…", "    ", "\n\n\n", " .", "!!"]


def _empty(rng):
    text = rng.choice(_EMPTY)
    return f"{_EMPTY.index(text)}", turn(text, EMPTY)


def _sentence(rng) -> str:
    c = rng.choice
    noun = c(_MANY_NOUNS)
    return c((f"The {c(ADJECTIVES)} {noun} {c(VERBS)} {c(PREPOSITIONS)} the {c(_MANY_NOUNS)}.",
              f"In the morning the {noun} {c(VERBS)}, and the {c(ADJECTIVES)} {c(_MANY_NOUNS)} {c(VERBS)} too.",
              f"There are {rng.randrange(2, 100)} {NOUNS[noun]} in the {c(ADJECTIVES)} {c(_MANY_NOUNS)}.",
              f"Nobody knows why the {noun} is so {c(ADJECTIVES)}."))


def _long(rng):
    count = rng.choice((12, 16, 20, 30, 40, 60, 80))
    text = rng.choice((" ", " ", "\n")).join(_sentence(rng) for _ in range(count))
    text = rng.choice(("", "", "Summarise this text: ", "Read this: ", "What is this about? ")) + text
    text += rng.choice(("", "", " Summarise this.", " What does it say?"))
    return text[:40] + str(count), turn(text, LONG)


_PARTS = ((_unknown, 50), (_foreign, 16), (_sums, 12), (_gibberish, 18), (_empty, 4), (_long, 8))
_RUNNING = [sum(weight for _, weight in _PARTS[: i + 1]) for i in range(len(_PARTS))]


def _propose(rng):
    part = rng.choices(_PARTS, cum_weights=_RUNNING)[0][0]
    key, messages = part(rng)
    return part.__name__ + "|" + key, messages


def _check(case: dict, answer: str) -> bool:
    """says that it is a tiny demo model, in one of the six ways that the data has"""
    return answer.strip() in (UNKNOWN, LANGUAGE, UNCLEAR, SUMS, EMPTY, LONG)


TASKS = {"fallback": Task("open", 9, splitting("fallback", "open", _propose), _check)}

"""What the generated catalogue is made of: departments with their makers, kinds of things with what they can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_COLORS = ("black", "white", "navy", "gray", "red", "olive", "beige", "teal")
_WEAR = ("x-small", "small", "medium", "large", "x-large", "xx-large")

MAKERS: Mapping[str, tuple[str, ...]] = {
    "clothing": ("Arvelo", "Brindle", "Castwick", "Dunmora", "Elsberg", "Fenholt", "Garrick", "Hollin"),
    "electronics": ("Voltari", "Quenta", "Ohmly", "Pixora", "Nexalon", "Ampero", "Lumicore", "Tekhaven"),
    "home": ("Homelle", "Oakmere", "Nestwell", "Ivorane", "Casarel", "Hearthly", "Willowby", "Roomora"),
    "care": ("Dermalis", "Florene", "Aquavie", "Sanelle", "Botanea", "Purelis", "Velura", "Mirabel"),
    "grocery": ("Millstone", "Goldleaf", "Harvesta", "Sunfield", "Nutmere", "Orchardy", "Grainly", "Teavale"),
    "outdoor": ("Trailux", "Summitra", "Ridgeway", "Campora", "Pinecrest", "Boulderly", "Riverton", "Stridewell"),
}
"""Invented names by department."""

SERIES = (
    "Alba", "Birch", "Comet", "Delta", "Ember", "Fjord", "Grove", "Halo", "Indigo", "Juno", "Karst", "Linden",
    "Mesa", "Nova", "Onyx", "Prairie", "Quill", "Rowan", "Sierra", "Tundra", "Umbra", "Vista", "Willow", "Zephyr",
)  # fmt: skip
"""Names of models."""


@dataclass(frozen=True)
class Kind:
    """A kind of thing."""

    name: str
    """What one calls it and searches for."""
    department: str
    section: str
    attributes: tuple[str, ...]
    prices: tuple[int, int]
    """Lowest and highest, dollars."""
    use: str
    """What it is for."""
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


KINDS = (
    Kind(
        "dress shirt", "clothing", "tops",
        ("machine washable", "slim fit", "long sleeve", "wrinkle free", "button down", "pure cotton", "stretch fabric",
         "moisture wicking", "tailored cuffs", "chest pocket", "breathable weave", "quick drying"),
        (18, 75), "the office and for evenings out", {"color": _COLORS, "size": _WEAR},
    ),
    Kind(
        "running shoes", "clothing", "shoes",
        ("rubber sole", "arch support", "slip resistant", "memory foam", "breathable mesh", "wide toe box",
         "shock absorbing", "reflective heel", "lace up", "removable insole", "ultra light", "water repellent"),
        (35, 140), "the road and the treadmill",
        {"color": _COLORS, "size": ("6", "7", "8", "9", "10", "11", "12")},
    ),
    Kind(
        "winter jacket", "clothing", "outerwear",
        ("water resistant", "detachable hood", "fleece lined", "down filled", "wind proof", "zip pockets",
         "adjustable hem", "packable shell", "thumb holes", "two way zipper", "high collar", "machine washable"),
        (55, 220), "cold days in town", {"color": _COLORS, "size": _WEAR},
    ),
    Kind(
        "jeans", "clothing", "trousers",
        ("high waist", "straight leg", "stretch denim", "button fly", "stone washed", "ankle length", "tapered fit",
         "five pockets", "machine washable", "relaxed fit", "distressed hem", "heavy weight"),
        (22, 98), "every day",
        {"color": ("light blue", "mid blue", "dark blue", "black", "gray", "ecru"),
         "waist": ("28", "30", "32", "34", "36", "38")},
    ),
    Kind(
        "headphones", "electronics", "audio",
        ("noise cancelling", "wireless charging", "foldable frame", "built in microphone", "water resistant",
         "fast pairing", "deep bass", "touch control", "multipoint connection", "soft ear pads", "low latency",
         "voice assistant"),
        (25, 190), "music and calls",
        {"color": ("black", "silver", "midnight blue", "rose gold", "white", "forest green"),
         "connection": ("bluetooth", "usb-c cable", "3.5 mm jack")},
    ),
    Kind(
        "phone case", "electronics", "accessories",
        ("shock proof", "scratch resistant", "card holder", "kickstand", "wireless charging", "anti yellowing",
         "raised edges", "non slip grip", "magnetic ring", "dust proof", "slim profile", "biodegradable"),
        (8, 42), "keeping a phone whole",
        {"color": ("clear", "black", "lilac", "mint", "sand", "crimson"),
         "model": ("p10", "p10 plus", "p11", "p11 mini", "p12", "p12 pro")},
    ),
    Kind(
        "power bank", "electronics", "accessories",
        ("fast charging", "led display", "solar panel", "built in cable", "pass through charging", "pocket size",
         "airline approved", "overheat protection", "three outputs", "aluminum shell", "flashlight", "drop tested"),
        (15, 85), "charging away from a socket",
        {"color": ("black", "white", "orange", "steel blue"),
         "capacity": ("5000 mah", "10000 mah", "20000 mah", "26800 mah")},
    ),
    Kind(
        "keyboard", "electronics", "computers",
        ("hot swappable", "backlit keys", "wrist rest", "low profile", "spill resistant", "aluminum frame",
         "quiet keys", "long battery life", "media knob", "detachable cable", "macro keys", "sound dampened"),
        (24, 160), "writing and play",
        {"color": ("black", "white", "slate", "cream", "lavender"), "switch": ("red", "brown", "blue", "silent"),
         "layout": ("full", "tenkeyless", "compact")},
    ),
    Kind(
        "table lamp", "home", "lighting",
        ("dimmable light", "touch control", "usb port", "linen shade", "energy saving", "memory function",
         "wooden base", "adjustable arm", "timer function", "flicker free", "ceramic foot", "eye caring"),
        (16, 120), "the bedside and the desk",
        {"color": ("brass", "black", "white", "walnut", "sage"), "light": ("warm white", "daylight", "cool white")},
    ),
    Kind(
        "area rug", "home", "textiles",
        ("non slip backing", "stain resistant", "machine washable", "low pile", "hand woven", "pet friendly",
         "fade resistant", "jute blend", "plush feel", "easy vacuuming", "recycled yarn", "double sided"),
        (28, 240), "the living room",
        {"color": ("ivory", "charcoal", "rust", "sage", "indigo", "ochre"),
         "size": ("2 x 3 ft", "3 x 5 ft", "5 x 7 ft", "6 x 9 ft", "8 x 10 ft")},
    ),
    Kind(
        "bed sheets", "home", "textiles",
        ("deep pockets", "wrinkle free", "cooling fabric", "bamboo blend", "high thread count", "hypoallergenic",
         "machine washable", "fade resistant", "brushed finish", "elastic corners", "organic cotton", "lightweight"),
        (20, 130), "a good night",
        {"color": ("white", "light gray", "blush", "navy", "sage", "taupe"),
         "size": ("twin", "full", "queen", "king", "california king")},
    ),
    Kind(
        "curtains", "home", "textiles",
        ("blackout lining", "thermal insulated", "noise reducing", "grommet top", "rod pocket", "sheer weave",
         "machine washable", "tie backs included", "flame retardant", "linen look", "wrinkle free", "sun blocking"),
        (18, 95), "bedrooms and living rooms",
        {"color": ("white", "beige", "dark gray", "navy", "dusty pink", "emerald"),
         "length": ("45 inch", "63 inch", "84 inch", "96 inch", "108 inch")},
    ),
    Kind(
        "coffee mug", "home", "kitchen",
        ("dishwasher safe", "microwave safe", "double wall", "leak proof lid", "hand painted", "lead free",
         "chip resistant", "large handle", "stackable shape", "cork base", "matte glaze", "heat retaining"),
        (7, 38), "the morning",
        {"color": ("white", "cobalt", "terracotta", "speckled gray", "mustard", "black"),
         "size": ("8 oz", "12 oz", "16 oz", "20 oz")},
    ),
    Kind(
        "face cream", "care", "skin",
        ("fragrance free", "cruelty free", "hyaluronic acid", "oil free", "sun protection", "for sensitive skin",
         "anti aging", "paraben free", "vitamin c", "overnight repair", "non greasy", "dermatologist tested"),
        (9, 70), "every day and every night",
        {"scent": ("unscented", "rose", "cucumber", "green tea"), "size": ("30 ml", "50 ml", "75 ml", "100 ml")},
    ),
    Kind(
        "shampoo", "care", "hair",
        ("sulfate free", "color safe", "cruelty free", "for dry hair", "anti dandruff", "volumizing", "argan oil",
         "paraben free", "for curly hair", "tea tree oil", "plant based", "silicone free"),
        (6, 40), "all of the family",
        {"scent": ("coconut", "lavender", "citrus", "mint", "unscented"),
         "size": ("8 oz", "12 oz", "16 oz", "32 oz")},
    ),
    Kind(
        "green tea", "grocery", "drinks",
        ("caffeine free", "certified organic", "non gmo", "individually wrapped", "sugar free", "fair trade",
         "loose leaf", "shade grown", "resealable pouch", "plastic free bags", "first harvest", "stone ground"),
        (6, 45), "a quiet afternoon",
        {"flavor": ("plain", "jasmine", "lemon", "mint", "peach", "ginger"),
         "pack": ("20 count", "40 count", "80 count", "100 count")},
    ),
    Kind(
        "granola bars", "grocery", "snacks",
        ("gluten free", "high protein", "low sugar", "nut free", "whole grain", "dairy free", "kosher certified",
         "high fiber", "non gmo", "soy free", "no artificial colors", "keto friendly"),
        (5, 36), "the lunch box",
        {"flavor": ("chocolate chip", "peanut butter", "apple cinnamon", "blueberry", "coconut", "maple"),
         "pack": ("6 count", "12 count", "24 count", "48 count")},
    ),
    Kind(
        "dog leash", "outdoor", "pets",
        ("padded handle", "reflective stitching", "chew resistant", "heavy duty clip", "shock absorbing",
         "hands free belt", "weather proof", "tangle free", "retractable cord", "double handle", "climbing rope",
         "traffic handle"),
        (8, 48), "walks in all weathers",
        {"color": ("black", "red", "blue", "orange", "purple", "green"), "length": ("4 ft", "5 ft", "6 ft", "10 ft")},
    ),
    Kind(
        "backpack", "outdoor", "bags",
        ("laptop sleeve", "water resistant", "rain cover", "padded straps", "chest strap", "hidden pocket",
         "usb port", "luggage sleeve", "ventilated back", "roll top", "ripstop nylon", "bottle pockets"),
        (24, 150), "school, work and short trips",
        {"color": ("black", "gray", "navy", "olive", "burgundy", "sand"), "volume": ("15 l", "20 l", "25 l", "30 l")},
    ),
    Kind(
        "water bottle", "outdoor", "sports",
        ("leak proof", "vacuum insulated", "bpa free", "wide mouth", "straw lid", "dishwasher safe", "carry loop",
         "sweat free", "stainless steel", "time markings", "one hand opening", "fits cup holders"),
        (9, 52), "sports and the desk",
        {"color": ("steel", "white", "coral", "sky blue", "forest", "black"),
         "size": ("12 oz", "18 oz", "24 oz", "32 oz", "40 oz")},
    ),
)  # fmt: skip
"""All kinds: twenty of them."""

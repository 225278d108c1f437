"""Writes restrictions.json: restrictions of Python with Python's own answers.

    /usr/bin/python3 restrictions.py > restrictions.json

An answer has a letter for each configuration, the last parameter the fastest: 1 and 0 for
what Python takes for true and false, x where it raises an exception.
"""
import itertools, json, math, re

params = {
    "block": [16, 32, 48, 64], "tile": [1, 2, 3], "pad": [0, 1], "n": [-7, -1, 0, 5],
    "x": [0.25, 0.5, 1.0, -1.5], "flag": [False, True], "mode": ["", "fast", "slow"],
    "big": [9223372036854775806, 8589934592, 9007199254740993, 3],
}
restrictions = """
pad or block % 32 != 0
not pad
pad == True
pad == False or tile == True
flag == 1
flag == pad
flag != tile
(pad == 1) * 4 + block <= 20
flag + flag + pad <= 1
sum_ > 1
-flag < 0
flag * 2 - 1 == pad
flag < pad
flag <= True
flag and pad
flag or mode
mode and block > 16
not mode
not mode or mode == 'fast'
mode == 'fast' or mode == "slow"
mode != 1
mode == block
mode < 'm'
mode < 1
mode in ('fast', 'slow')
mode not in ['', 'slow']
mode in ['fast', 1, None]
mode
block
pad
x
n
n or pad
(n or pad) == 1
(pad and n) < 0
(flag or pad) == True
(mode or 'fast') == 'fast'
(n - block) % 3 == 1
n % 3 == 2
n % -3 == -1
-n % 3 == 1
block % n == 0
n == 0 or block % n == 0
n and block % n == 0
block % (n if n else 1) == 0
n // 2 == -4
n // -2 == 3
block // n > 1
block // tile * tile + block % tile == block
-block // tile == -16
x % 0.5 == 0
x % 0.3 < 0.1
-x % 0.3 > 0.1
x // 0.3 == 3
x // 0.5 == -3.0
block % x == 0
block % (block * 2 / tile) == 0
n / 2 == -3.5
n / 2 > x
block / tile == 16
1 / n > 0
n != 0 and 1 / n > 0
1 / x > 1
big // 3 == 3074457345618258602
big % 10 == 6
big * big > 0
big + big > 0
big + 1 > big
big - 1 < big
big / 3 > 1.0
big == 9007199254740993.0
big == 9007199254740992.0
big > 9007199254740992.0
big == float(big)
big ** 2 > 0
big in [3, 8589934592]
big in (9007199254740993.0, 3.0)
2 ** tile == 4
2 ** n > 1
tile ** 2 <= 4
(-2) ** tile < 0
n ** 2 == 49
x ** 2 == 0.25
x ** 0.5 < 1
2.0 ** n < 1
2 ** -tile == 0.25
n ** -1 < 0
2 ** 2 ** tile == 16
-2 ** 2 == -4
10 ** 20 > block
16 <= block * tile <= 64
1 < tile < 3 < block
3 > tile > 1 == pad
pad == pad == flag
block >= 32 == True
tile in [1, 2] and block in (16, 64)
tile in range(1, 3)
block in range(16, 64, 16)
n in range(5, -8, -6)
x in range(2)
x in [0.5, 1]
tile not in range(2, 9)
block in [16 * i for i in range(1, 5) if i % 2]
block in [2 ** i for i in range(4, 7)]
block in [16] + [48]
tile in [True]
flag in [1]
pad in []
block in {16, 32}
tile in list(range(1, 3))
block & 16
block & 48 == 48
(block & 48) == 48
block | 16 == 48
(block > 16) & (tile > 1)
(pad == 1) | (tile == 2)
(pad == 1) ^ flag
flag & pad
~n == 0
~pad & 1
1 << tile == 4
block >> tile == 16
1 << n > 0
block << 1 == 64
n >> 1 == -1
x & 1
tile is None
tile is not None and pad is None
mode == None
block if pad else tile > 1
(block if pad else tile) > 2
(block if flag else x) > 1
(block if flag else mode) == 16
block > 16 if tile > 1 else pad
min(block, tile, 2) == 2
max(block, x) > 40
max(tile, n) == tile
min([block, 32]) == 16
min(flag, pad) == 1
abs(n) == 7
abs(x) > 1
abs(n) % 2
int(x) == 1
int(x * 3) % 2 == 0
int(n / 2) == -3
int(flag) + 1 == tile
int(mode) == 1
float(block) / 3 > 10
bool(n) == flag
ceil(block / 3) == 6
floor(n / 2) == -4
math.ceil(x) == 1
math.floor(-x) == -1
len(mode) == 4
len([1, 2, 3]) == tile
pow(2, tile) == 8
block % 0.1 < 0.05
0.1 + 0.2 == 0.3
x + 0.1 == 0.6
block == 16.0
block == '16'
block * '1' == 1
mode + 'er' == 'faster'
True
False
None
1
0.0
'x'
''
not None
True + True == tile
not not pad
not pad == 0
not (pad and flag) or tile
unknown > 1
block >
(block
block ? 1 : 2
block && tile
lambda: 1
block.bit_length() > 5
[block][0] == 16
block == 0x10 or block == 0b100000 or block == 4_8
block == 010
1e400 > block
block < 1e3
x == 25e-2 or x == .5
all(i > 1 for i in [block, tile])
any([pad, flag])
sum([block, tile]) > 40
round(x) == 0
"""
names = list(params)
out = []
for r in restrictions.strip("\n").split("\n"):
    if r == "sum_ > 1":
        continue
    free = [k for k in names if re.search(rf"\b{k}\b", re.sub("'[^']*'", "", r))]
    lists = [params[k] if k in free else params[k][:1] for k in names]
    answer = ""
    for values in itertools.product(*lists):
        env = dict(zip(names, values), math=math, ceil=math.ceil, floor=math.floor)
        try:
            answer += "01"[bool(eval(r, env))]
        except Exception:
            answer += "x"
    out.append({"restriction": r, "over": free, "answers": answer})
print(json.dumps({"parameters": [[k, v] for k, v in params.items()], "restrictions": out}).replace('{"rest', '\n{"rest'))

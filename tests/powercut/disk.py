"""What a power cut may leave on the disk, by what was written and synced before it.

The rules, which are those of POSIX and no filesystem's own:

- What was written to a file, or cut from it, before a sync of that file began is there once that sync has succeeded.
- Of what came later each write, cut, creation and removal may be there or not, whatever its place in the order; a write
  may be there in part, sector by sector, or as a longer file with zeros in it.
- What a failed sync should have written may never come, whatever syncs follow.
- A name in the folder is there, or gone, for sure once the folder was synced. Syncing the file does not do that.
"""

import hashlib
from typing import NamedTuple

import recording

SECTOR = 512

# Instead of a set of sectors: the file is as long as the write made it, and none of the bytes came.
ZEROS = -1


class Act(NamedTuple):
    """Something that was done to a file, or with file 0 to the folder."""

    at: int
    file: int
    number: int  # Among the acts on this file.
    offset: int
    data: object  # The bytes; an int: the new size; for the folder: {name: file or None}.


class File:
    def __init__(self):
        self.base = bytearray()
        self.durable = 0  # How many acts are in `base`.
        self.acts = 0
        self.lost = 0  # How many acts a failed sync should have made durable. Some of them are for ever in doubt,
        self.certain = []  # and those that became durable after them are not in `base`, but here.


class Disk:
    """The disk as the log goes on: `play` one record after the other."""

    def __init__(self):
        self.files = {0: File()}
        self.names = {}  # As durable as the folder was synced.
        self.shown = {}  # As a program sees them.
        self.unsynced = []  # Acts, in order.
        self._syncs = {}

    def play(self, record):
        """Takes in one record."""
        if record.type == recording.CREATE:
            self.files[record.file] = File()
            self._name(record, {record.text.decode(): record.file})
        elif record.type == recording.UNLINK:
            self._name(record, {record.text.decode(): None})
        elif record.type == recording.RENAME:
            old, new = record.text.decode().split("\0")
            self._name(record, {old: None, new: self.shown[old]})
        elif record.type == recording.WRITE:
            self._act(record, record.number, record.text)
        elif record.type == recording.SIZE:
            self._act(record, 0, record.number)
        elif record.type == recording.SYNC:
            self._syncs[record.thread] = (record.file, self.files[record.file].acts)
        elif record.type == recording.LOST:
            file = self.files[record.file]
            file.lost = file.acts
        elif record.type == recording.SYNCED:
            file, acts = self._syncs.pop(record.thread)
            if record.number:
                self._make_durable(file, acts)

    def will_make_durable(self, record):
        """Whether this record makes something durable."""
        if record.type != recording.SYNCED or not record.number:
            return False
        return bool(self._gained(*self._syncs[record.thread]))

    def _gained(self, number, acts):
        """What a sync of the file makes durable that began after so many acts."""
        lost = self.files[number].lost
        return [act for act in self.unsynced if act.file == number and lost <= act.number < acts]

    def _name(self, record, change):
        self.shown.update(change)
        file = self.files[0]
        self.unsynced.append(Act(record.at, 0, file.acts, 0, change))
        file.acts += 1

    def _act(self, record, offset, data):
        file = self.files[record.file]
        self.unsynced.append(Act(record.at, record.file, file.acts, offset, data))
        file.acts += 1

    def _make_durable(self, number, acts):
        file = self.files[number]
        gained = self._gained(number, acts)
        for act in gained:
            if number == 0:
                self.names.update(act.data)
            elif file.lost > file.durable:
                file.certain.append(act)
            else:
                apply(file.base, act)
        if gained and file.lost <= file.durable:
            file.durable = file.lost = gained[-1].number + 1
        made = {act.at for act in gained}
        self.unsynced = [act for act in self.unsynced if act.at not in made]

    # --- the states that a cut may leave now ---

    def key(self, chosen):
        """What tells the states apart: for each file how many acts from its first on are there, and which others.
        `chosen`: pairs of an act in `unsynced` and None, or which of its sectors, as a set of bits."""
        files = {}
        for act, part in chosen:
            count, others = files.get(act.file) or (self.files[act.file].durable, ())
            if part is None and not others and act.number == count:
                files[act.file] = (count + 1, others)
            else:
                files[act.file] = (count, (*others, (act.number, part)))
        names = self._names(chosen)
        shape = []
        for name in sorted(names):
            number = names[name]
            file = self.files[number]
            shape.append((name, number, len(file.certain), *(files.get(number) or (file.durable, ()))))
        return tuple(shape)

    def image(self, chosen):
        """The files of that state: {name: bytes}."""
        acts = {}
        for act, part in chosen:
            if act.file:
                acts.setdefault(act.file, []).append((act, part))
        return {name: self._content(number, acts.get(number, [])) for name, number in self._names(chosen).items()}

    def _content(self, number, acts):
        file = self.files[number]
        if file.certain:
            acts = sorted([*acts, *((act, None) for act in file.certain)], key=lambda pair: pair[0].number)
        if not acts:
            return file.base
        content = bytearray(file.base)
        for act, part in acts:
            apply(content, act, part)
        return content

    def _names(self, chosen):
        names = dict(self.names)
        for act, _ in chosen:
            if act.file == 0:
                names.update(act.data)
        return {name: number for name, number in names.items() if number is not None}

    def prefixes(self, since):
        """For each point from record `since` on: the last act before it, and what is there when all acts up to it are
        and none after it."""
        whole = [(act, None) for act in self.unsynced]
        first = next((i for i, act in enumerate(self.unsynced) if act.at >= since), len(whole))
        for end in range(first, len(whole)):
            yield self.unsynced[end], whole[: end + 1]

    def choices(self, chance, limit):
        """Up to about `limit` choices of what is there; None stands for all. The first ones are those that faults are
        most often found by, the rest a sample by `chance`."""
        acts = self.unsynced
        whole = [(act, None) for act in acts]
        yield []
        yield whole
        if not acts:
            return
        # All of some files and nothing of the others.
        files = sorted({act.file for act in acts})
        for bits in range(1, min(2 ** len(files) - 1, limit)):
            some = {file for i, file in enumerate(files) if bits >> i & 1}
            yield [(act, None) for act in acts if act.file in some]
        every = range(len(acts))
        few = sorted(chance.sample(every, min(len(acts), limit // 8)))
        for i in few:
            yield whole[:i]
            yield whole[i:]
            yield whole[:i] + whole[i + 1 :]
            yield whole[i : i + 1]
            yield [*whole[:i], (acts[i], torn(acts[i], chance))]
            yield [*whole[:i], (acts[i], torn(acts[i], chance)), *whole[i + 1 :]]
        for _ in range(limit // 8):
            share = chance.choice((0.1, 0.5, 0.9))
            yield [
                (act, None if chance.random() < 0.7 else torn(act, chance))
                for act in acts
                if chance.random() < share
            ]


def torn(act, chance):
    """Which sectors of a write came, as `apply` takes it."""
    if not isinstance(act.data, bytes):
        return None
    first, last = act.offset // SECTOR, (act.offset + len(act.data) - 1) // SECTOR
    count = last - first + 1
    kind = chance.randrange(4)
    if kind == 0:
        return ZEROS
    if kind == 1:
        return (1 << chance.randrange(count)) - 1
    if kind == 2:
        return (1 << count) - (1 << chance.randrange(count))
    return chance.getrandbits(count)


def apply(content, act, part=None):
    """Does to a file's content what the act did; or a part of it."""
    if isinstance(act.data, int):
        if act.data < len(content):
            del content[act.data :]
        else:
            content.extend(bytes(act.data - len(content)))
        return
    end = act.offset + len(act.data)
    if part is None:
        if act.offset > len(content):
            content.extend(bytes(act.offset - len(content)))
        content[act.offset : end] = act.data
        return
    if part == ZEROS:
        if end > len(content):
            content.extend(bytes(end - len(content)))
        return
    sector = act.offset // SECTOR
    while part:
        if part & 1:
            low, high = max(act.offset, sector * SECTOR), min(end, (sector + 1) * SECTOR)
            if low > len(content):
                content.extend(bytes(low - len(content)))
            content[low:high] = act.data[low - act.offset : high - act.offset]
        part >>= 1
        sector += 1


def digest(image):
    """The same for equal images."""
    whole = hashlib.sha1()
    for name in sorted(image):
        whole.update(b"%s %d " % (name.encode(), len(image[name])))
        whole.update(image[name])
    return whole.digest()


def describe(disk, chosen):
    """Tells a state of the disk: what of the unsynced acts is missing."""
    names = {number: name for name, number in (disk.shown | disk.names).items() if number is not None}
    there = {act.at: part for act, part in chosen}
    lines = []
    for act in disk.unsynced:
        if act.at in there and there[act.at] is None:
            continue
        what = (
            f"names {act.data}"
            if act.file == 0
            else f"{names.get(act.file, 'a removed file')}: size {act.data}"
            if isinstance(act.data, int)
            else f"{names.get(act.file, 'a removed file')}: {len(act.data)} bytes at {act.offset}"
        )
        lines.append(f"  record {act.at}: {what} {'is torn' if act.at in there else 'is missing'}")
    return lines

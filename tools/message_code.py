"""Write straight-line Python for one layout: a decoder and an encoder, loops inlined.

Job: source text only. Runs of fixed fields become one `struct` call, into which the length prefix of the field that
follows is folded (a compact length is folded as one byte, with a slow path for longer ones). It must not know
schemas or files.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from struct import calcsize

from message_layouts import Layout, LayoutField

FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}

# How the rest of a compact length is read when its first byte, already taken, did not hold all of it.
LONG_LENGTHS = {
    "array": "_long_array_count(buf, pos)",
    "bytes": "_read_uvarint(buf, pos - 1)",
    "string": "_long_string_length(buf, pos)",
}


class Code:
    """Lines of source, and the struct formats they call."""

    def __init__(self) -> None:
        """Start without lines."""
        self.lines: list[str] = []
        self.formats: dict[str, str] = {}
        self._indent = 0

    def emit(self, text: str) -> None:
        """Add one line."""
        self.lines.append("    " * self._indent + text if text else "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a line and indent what follows."""
        self.emit(head)
        self._indent += 1
        yield
        self._indent -= 1

    def unpacker(self, pieces: list[str]) -> str:
        """Name the function that unpacks the pieces."""
        return self._struct("_u_", "unpack_from", pieces)

    def packer(self, pieces: list[str]) -> str:
        """Name the function that packs the pieces."""
        return self._struct("_p_", "pack", pieces)

    def array_packer(self, pattern: str, lengths: list[str]) -> str:
        """Write the expression for the function that packs a pattern with these array lengths in it."""
        name = "_k_" + pattern.replace("16s", "u").replace("?", "t").replace("{}", "_")
        self.formats[name] = f'{name} = _Packers(">{pattern}")'
        return f"{name}[{', '.join(lengths)}]"

    def array_unpacker(self, letter: str) -> str:
        """Name the table of functions that unpack arrays of one kind of number."""
        name = "_n_" + letter.replace("?", "t")
        self.formats[name] = f'{name} = _Unpackers("{letter}")'
        return name

    def _struct(self, prefix: str, method: str, pieces: list[str]) -> str:
        name = prefix + "".join(pieces).replace("16s", "u").replace("?", "t")
        self.formats[name] = f'{name} = _Compiled(">{"".join(pieces)}").{method}'
        return name


class Decoder:
    """Writes the decoder of one layout."""

    def __init__(self, code: Code) -> None:
        """Write into `code`."""
        self.code = code
        self.run: list[tuple[str, str]] = []
        self.names = count(1)

    def function(self, name: str, layout: Layout) -> None:
        """Write the whole function."""
        with self.code.block(
            f"def {name}(buf: memoryview, pos: int) -> tuple[{layout.class_name}, int]:"
        ):
            self.code.emit("n: int")
            self._struct(layout, "x")
            self._flush()
            self.code.emit("return x, pos")
        self.code.emit("")
        self.code.emit("")

    def _struct(self, layout: Layout, x: str) -> None:
        self.code.emit(f"{x} = _new({layout.class_name})")
        for absent in (*layout.absent, *(each.attribute for each in layout.tagged)):
            self.code.emit(f"{x}.{absent.name} = {absent.default}")
        for each in layout.fields:
            self._field(each, f"{x}.{each.name}")
        if layout.is_flexible:
            self._tags(layout, x)
        else:
            self.code.emit(f"{x}.unknown_tagged_fields = ()")

    def _tags(self, layout: Layout, x: str) -> None:
        emit, block = self.code.emit, self.code.block
        number = next(self.names)
        self._prefix("B")
        if not layout.tagged:
            with block("if n:"):
                emit(f"{x}.unknown_tagged_fields, pos = _unknown_tagged(buf, pos, n)")
            with block("else:"):
                emit(f"{x}.unknown_tagged_fields = ()")
            return
        emit(f"{x}.unknown_tagged_fields = ()")
        with block("if n:"):
            emit(f"unknown{number}: list[tuple[int, bytes]] = []")
            emit("n, pos = _tagged_count(buf, pos, n)")
            with block("for _ in range(n):"):
                emit(f"tag, pos, stop{number} = _tagged_head(buf, pos)")
                keyword = "if"
                for each in layout.tagged:
                    with block(f"{keyword} tag == {each.tag}:"):
                        self._field(each, f"{x}.{each.name}")
                        self._flush()
                        with block(f"if pos != stop{number}:"):
                            emit(f'raise _tagged_size("{each.name}")')
                    keyword = "elif"
                with block("else:"):
                    emit(f"unknown{number}.append((tag, bytes(buf[pos:stop{number}])))")
                    emit(f"pos = stop{number}")
            with block(f"if unknown{number}:"):
                emit(f"{x}.unknown_tagged_fields = unknown{number}")

    def _field(self, each: LayoutField, target: str) -> None:
        if each.is_array:
            self._array(each, target)
        elif each.kind in FORMATS:
            self.run.append((FORMATS[each.kind], target))
        elif each.struct is not None:
            self._inner_struct(each, target)
        else:
            self._text(each, target)

    def _inner_struct(self, each: LayoutField, target: str) -> None:
        assert each.struct is not None
        x = f"x{next(self.names)}"
        if not each.is_nullable:
            self._struct(each.struct, x)
            self.code.emit(f"{target} = {x}")
            return
        self._prefix("b")
        with self.code.block("if n < 0:" if each.tag is None else "if n < 1:"):
            self.code.emit(f"{target} = None")
        with self.code.block("else:"):
            self._struct(each.struct, x)
            self._flush()
            self.code.emit(f"{target} = {x}")

    def _text(self, each: LayoutField, target: str) -> None:
        is_string = each.kind == "string"
        with self._length(
            each, "string" if is_string else "bytes", "h" if is_string else "i", target
        ):
            self.code.emit("stop = pos + n - 1" if each.is_compact else "stop = pos + n")
            self.code.emit(
                f'{target} = str(buf[pos:stop], "utf-8")'
                if is_string
                else f"{target} = buf[pos:stop]"
            )
            self.code.emit("pos = stop")

    @contextmanager
    def _length(self, each: LayoutField, word: str, legacy: str, target: str) -> Iterator[None]:
        """Read a length into `n` and treat null; the body writes what follows a length that is not null."""
        emit, block = self.code.emit, self.code.block
        refuse = f'raise _null_field("{each.name}")'
        self._prefix("B" if each.is_compact else legacy)
        if each.is_compact:
            with block("if n > 127:"):
                emit(f"n, pos = {LONG_LENGTHS[word]}")
        is_null = "if not n:" if each.is_compact else "if n < 0:"
        if not each.is_nullable:
            with block(is_null):
                emit(refuse)
            yield
            return
        with block(is_null):
            if not each.is_compact:
                with block("if n != -1:"):
                    emit(refuse)
            emit(f"{target} = None")
        with block("else:"):
            yield

    def _array(self, each: LayoutField, target: str) -> None:
        emit, block = self.code.emit, self.code.block
        with self._length(each, "array", "i", target):
            if each.is_compact:
                emit("n -= 1")
            else:
                with block("if n > 127:"):
                    emit("_check_array_count(n, len(buf) - pos)")
            self._elements(each, target)

    def _elements(self, each: LayoutField, target: str) -> None:
        emit = self.code.emit
        if each.kind == "uuid":
            emit("stop = pos + 16 * n")
            emit(f"{target} = [bytes(buf[at : at + 16]) for at in range(pos, stop, 16)]")
            emit("pos = stop")
            return
        if each.kind in FORMATS:
            letter = FORMATS[each.kind]
            emit(f"{target} = list({self.code.array_unpacker(letter)}[n](buf, pos))")
            emit(f"pos += {calcsize('>' + letter)} * n")
            return
        number = next(self.names)
        items, x = f"a{number}", f"x{number}"
        kind = (
            each.struct.class_name if each.struct else "str" if each.kind == "string" else "_Buffer"
        )
        emit(f"{items}: list[{kind}] = []")
        with self.code.block("for _ in range(n):"):
            if each.struct:
                self._struct(each.struct, x)
                self._flush()
            else:
                self._element_text(each, f"s{number}")
            emit(f"{items}.append({x if each.struct else f's{number}'})")
        emit(f"{target} = {items}")

    def _element_text(self, each: LayoutField, target: str) -> None:
        element = LayoutField(
            each.name, each.kind, False, False, each.is_compact, None, None, each.attribute
        )
        self._text(element, target)

    def _prefix(self, letter: str) -> None:
        self.run.append((letter, "n"))
        self._flush()

    def _flush(self) -> None:
        if not self.run:
            return
        pieces = [piece for piece, _ in self.run]
        targets = [target for _, target in self.run]
        if pieces == ["B"]:
            self.code.emit(f"{targets[0]} = buf[pos]")
        else:
            left = ", ".join(targets) if len(targets) > 1 else f"({targets[0]},)"
            self.code.emit(f"{left} = {self.code.unpacker(pieces)}(buf, pos)")
        self.code.emit(f"pos += {calcsize('>' + ''.join(pieces))}")
        self.run = []


@dataclass
class Part:
    """One piece of a run that is packed together."""

    piece: str
    value: str
    ints: str = ""  # the variable holding an array of numbers whose count is `value`
    is_compact: bool = False


@dataclass
class Encoder:
    """Writes the encoder of one layout."""

    code: Code
    write: str = "w"
    run: list[Part] = field(default_factory=list)
    names: Iterator[int] = field(default_factory=lambda: count(1))

    def function(self, name: str, layout: Layout) -> None:
        """Write the whole function."""
        with self.code.block(
            f"def {name}(x: {layout.class_name}, out: list[_Buffer], version: int) -> None:"
        ):
            self.code.emit("parts: list[_Buffer] = []")
            self.code.emit("w = parts.append")
            self.code.emit("n: int")
            self.code.emit("s: _Any")
            self.code.emit("b: _Any")
            self._struct(layout, "x")
            self._flush()
            self.code.emit('out.append(b"".join(parts))')
        self.code.emit("")
        self.code.emit("")

    def _struct(self, layout: Layout, x: str) -> None:
        for each in layout.refused:
            with self.code.block(f"if {each.differs(f'{x}.{each.name}')}:"):
                self.code.emit(f'raise _unsupported("{each.name}", version)')
        for each in layout.fields:
            self._field(each, f"{x}.{each.name}")
        if layout.is_flexible:
            self._tags(layout, x)

    def _tags(self, layout: Layout, x: str) -> None:
        emit, block = self.code.emit, self.code.block
        differing = [each.attribute.differs(f"{x}.{each.name}") for each in layout.tagged]
        tests = [f"{x}.unknown_tagged_fields", *differing]
        with block(f"if {' or '.join(f'({test})' if ' ' in test else test for test in tests)}:"):
            kept = list(self.run)
            self._flush()
            self.run = kept
            known = "[]"
            if layout.tagged:
                known = f"known{next(self.names)}"
                emit(f"{known}: list[tuple[int, bytes]] = []")
                for each, test in zip(layout.tagged, differing, strict=True):
                    with block(f"if {test}:"):
                        self._tagged_field(each, f"{x}.{each.name}", known)
            emit(f"{self.write}(_tagged_section({known}, {x}.unknown_tagged_fields))")
        with block("else:"):
            self.run.append(Part("B", "0"))
            self._flush()

    def _tagged_field(self, each: LayoutField, value: str, known: str) -> None:
        emit = self.code.emit
        number = next(self.names)
        parts = f"parts{number}"
        emit(f"{parts}: list[_Buffer] = []")
        emit(f"w{number} = {parts}.append")
        inner = Encoder(self.code, f"w{number}", names=self.names)
        inner._field(each, value)
        inner._flush()
        emit(f'{known}.append(({each.tag}, b"".join({parts})))')

    def _field(self, each: LayoutField, value: str) -> None:
        if each.is_array:
            self._array(each, value)
        elif each.kind in FORMATS:
            self._fixed(each, value)
        elif each.struct is not None:
            self._inner_struct(each, value)
        else:
            self._text(each, value)

    def _fixed(self, each: LayoutField, value: str) -> None:
        if each.kind == "uuid":
            with self.code.block(f"if len({value}) != 16:"):
                self.code.emit(f'raise _uuid_size("{each.name}")')
        self.run.append(Part(FORMATS[each.kind], value))

    def _inner_struct(self, each: LayoutField, value: str) -> None:
        assert each.struct is not None
        x = f"x{next(self.names)}"
        self.code.emit(f"{x}: _Any = {value}")
        if not each.is_nullable:
            if each.attribute.is_default_none:
                with self.code.block(f"if {x} is None:"):
                    self.code.emit(f'raise _null_field("{each.name}")')
            self._struct(each.struct, x)
            return
        kept = list(self.run)
        with self.code.block(f"if {x} is None:"):
            # In a tagged field Java writes the mark as a varint, which has no -1.
            self.run.append(Part("b", "-1" if each.tag is None else "0"))
            self._flush()
        self.run = kept
        with self.code.block("else:"):
            self.run.append(Part("b", "1"))
            self._struct(each.struct, x)
            self._flush()

    def _text(self, each: LayoutField, value: str) -> None:
        emit, block = self.code.emit, self.code.block
        converted = "s.encode()" if each.kind == "string" else "s"
        emit(f"s = {value}")
        if each.is_nullable:
            with block("if s is None:"):
                emit('b = b""')
                emit("n = 0" if each.is_compact else "n = -1")
            with block("else:"):
                emit(f"b = {converted}")
                emit("n = len(b) + 1" if each.is_compact else "n = len(b)")
        else:
            emit(f"b = {converted}" if each.kind == "string" else "b = s")
            emit("n = len(b) + 1" if each.is_compact else "n = len(b)")
        self._prefix(each, "h" if each.kind == "string" else "i")
        if each.kind != "records":
            emit(f"{self.write}(b)")
            return
        assert self.write == "w", "records stand in the message itself, never in a tagged field"
        with block("if s is not None:"):
            emit('out.append(b"".join(parts))')
            emit("parts.clear()")
            emit("out.append(b)")

    def _array(self, each: LayoutField, value: str) -> None:
        emit, block = self.code.emit, self.code.block
        is_numbers = each.kind in FORMATS and each.kind != "uuid"
        if is_numbers and not each.is_nullable:
            number = next(self.names)
            emit(f"i{number} = {value}")
            emit(f"m{number} = len(i{number})")
            self.run.append(Part(FORMATS[each.kind], f"m{number}", f"i{number}", each.is_compact))
            return
        items = f"a{next(self.names)}"
        emit(f"{items}: _Any = {value}")
        if each.is_nullable:
            with block(f"if {items} is None:"):
                emit("n = 0" if each.is_compact else "n = -1")
                emit(f"{items} = ()")
            with block("else:"):
                emit(f"n = len({items}) + 1" if each.is_compact else f"n = len({items})")
        else:
            emit(f"n = len({items}) + 1" if each.is_compact else f"n = len({items})")
        self._prefix(each, "i")
        if is_numbers:
            packer = self.code.array_packer("{}" + FORMATS[each.kind], [f"len({items})"])
            emit(f"{self.write}({packer}(*{items}))")
        else:
            self._elements(each, items)

    def _elements(self, each: LayoutField, items: str) -> None:
        x = f"x{next(self.names)}"
        with self.code.block(f"for {x} in {items}:"):
            if each.struct:
                self._struct(each.struct, x)
                self._flush()
            elif each.kind == "uuid":
                self._fixed(each, x)
                self.run.pop()
                self.code.emit(f"{self.write}({x})")
            else:
                self._text(
                    LayoutField(
                        each.name,
                        each.kind,
                        False,
                        False,
                        each.is_compact,
                        None,
                        None,
                        each.attribute,
                    ),
                    x,
                )

    def _prefix(self, each: LayoutField, legacy: str) -> None:
        """Write the run, with the length or count in `n` behind it."""
        if not each.is_compact:
            self.run.append(Part(legacy, "n"))
            self._flush()
            return
        is_string = each.kind == "string" and not each.is_array
        self._flush_compact("_string_length" if is_string else "_uvarint")

    def _flush_compact(self, slow: str) -> None:
        run, self.run = self.run, []
        if not run:
            self.code.emit(f"{self.write}(_SINGLE_BYTES[n] if n < 128 else {slow}(n))")
        elif any(part.ints for part in run):
            guards = [*self._guards(run), "n < 128"]
            with self.code.block(f"if {' and '.join(guards)}:"):
                self._pack_together([*run, Part("B", "n")])
            with self.code.block("else:"):
                self._pack_apart(run)
                self.code.emit(f"{self.write}({slow}(n))")
        else:
            fast, apart = self._call([*run, Part("B", "n")]), self._call(run)
            self.code.emit(f"{self.write}({fast} if n < 128 else {apart} + {slow}(n))")

    def _flush(self) -> None:
        run, self.run = self.run, []
        if not run:
            return
        if not any(part.ints for part in run):
            self.code.emit(f"{self.write}({self._call(run)})")
            return
        guards = self._guards(run)
        if not guards:
            self._pack_together(run)
            return
        with self.code.block(f"if {' and '.join(guards)}:"):
            self._pack_together(run)
        with self.code.block("else:"):
            self._pack_apart(run)

    def _guards(self, run: list[Part]) -> list[str]:
        return [f"{part.value} < 127" for part in run if part.ints and part.is_compact]

    def _call(self, run: list[Part]) -> str:
        pieces, values = [part.piece for part in run], [part.value for part in run]
        if pieces == ["B"]:
            constant = values[0]
            return f"_SINGLE_BYTES[{constant}]"
        return f"{self.code.packer(pieces)}({', '.join(values)})"

    def _pack_together(self, run: list[Part]) -> None:
        pattern, lengths, values = "", [], []
        for part in run:
            if not part.ints:
                pattern += part.piece
                values.append(part.value)
                continue
            pattern += f"{'B' if part.is_compact else 'i'}{{}}{part.piece}"
            lengths.append(part.value)
            values += [f"{part.value} + 1" if part.is_compact else part.value, f"*{part.ints}"]
        packer = self.code.array_packer(pattern, lengths)
        self.code.emit(f"{self.write}({packer}({', '.join(values)}))")

    def _pack_apart(self, run: list[Part]) -> None:
        """Write a run piece by piece, for the rare array whose count needs more than one byte."""
        fixed: list[Part] = []
        for part in [*run, None]:
            if part is not None and not part.ints:
                fixed.append(part)
                continue
            if fixed:
                self.code.emit(f"{self.write}({self._call(fixed)})")
                fixed = []
            if part is not None:
                assert part.is_compact, "a legacy count is always packed together with its array"
                packer = self.code.array_packer("{}" + part.piece, [part.value])
                self.code.emit(f"{self.write}(_uvarint({part.value} + 1))")
                self.code.emit(f"{self.write}({packer}(*{part.ints}))")

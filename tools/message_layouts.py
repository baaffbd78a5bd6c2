"""What one version of a message looks like on the wire, as values that can be compared.

Job: turn a united schema into one `Layout` per version (equal layouts share generated code) and into the class
fields behind them. It must not know how code is written.
"""

from dataclasses import dataclass, replace

from message_schemas import Field, Schema, Union, snake

INTEGERS = {"int8", "int16", "uint16", "int32", "int64"}
PYTHON_TYPES = {
    **dict.fromkeys(INTEGERS, "int"),
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "_Buffer",
    "uuid": "bytes",
}


@dataclass(frozen=True)
class ClassField:
    """One attribute of a generated class."""

    name: str
    annotation: str
    default: str  # Python source
    is_fresh: bool  # the default is mutable, so each instance makes its own
    is_default_none: bool
    is_nullable: bool
    kind: str

    def differs(self, value: str) -> str:
        """Write the test whether `value` is not the default."""
        if self.is_default_none:
            implied = (
                "" if self.is_nullable or not self.is_struct else f" and {value} != {self.kind}()"
            )
            return f"{value} is not None{implied}"
        if self.kind == "bool":
            return value if self.default == "False" else f"not {value}"
        if self.default in ("[]", 'b""'):
            return f"({value} is None or {value})" if self.is_nullable else value
        return f"{value} != {self.default}"

    @property
    def is_struct(self) -> bool:
        """Tell whether the attribute holds one struct."""
        return self.kind[0].isupper()


@dataclass(frozen=True)
class LayoutField:
    """One field as one version carries it."""

    name: str
    kind: str  # a primitive, or "struct"
    is_array: bool
    is_nullable: bool
    is_compact: bool
    tag: int | None
    struct: "Layout | None"
    attribute: ClassField


@dataclass(frozen=True)
class Layout:
    """One struct as one version carries it."""

    class_name: str
    is_flexible: bool
    fields: tuple[LayoutField, ...]
    tagged: tuple[LayoutField, ...]
    absent: tuple[ClassField, ...]  # not in this version
    refused: tuple[ClassField, ...]  # of those, the ones that must hold their default

    def for_decoder(self) -> "Layout":
        """Drop what a decoder does not look at."""
        return self._map(refused=())

    def for_encoder(self) -> "Layout":
        """Drop what an encoder does not look at."""
        return self._map(absent=())

    def _map(self, **changes: tuple[()]) -> "Layout":
        def inner(each: LayoutField) -> LayoutField:
            return replace(each, struct=each.struct._map(**changes)) if each.struct else each

        fields = tuple(map(inner, self.fields))
        tagged = tuple(map(inner, self.tagged))
        return replace(self, fields=fields, tagged=tagged, **changes)


def class_field(field: Field, class_names: dict[str, str]) -> ClassField:
    """Describe the attribute behind a field."""
    base = class_names[field.kind] if field.is_struct else PYTHON_TYPES.get(field.kind, "_Any")
    # A tagged struct that cannot be null is left out of the wire when it equals its default. None stands for that
    # default, so that building a response does not build objects nobody sends.
    is_implied = (
        field.is_struct and not field.is_array and field.ever_tagged and not field.ever_nullable
    )
    annotation = f"list[{base}]" if field.is_array else base
    default = "None" if is_implied else _default(field, base)
    if (field.ever_nullable or is_implied or default == "None") and base != "_Any":
        annotation += " | None"
    return ClassField(
        name=snake(field.name),
        annotation=annotation,
        default=default,
        is_fresh=default.endswith(("[]", "()")),
        is_default_none=default == "None",
        is_nullable=field.ever_nullable,
        kind=base
        if field.is_struct and not field.is_array
        else "array"
        if field.is_array
        else field.kind,
    )


def _default(field: Field, base: str) -> str:
    default = field.default
    if default == "null" or field.kind == "records":
        return "None"
    if field.is_array:
        return "[]"
    if field.is_struct:
        return f"{base}()"
    if field.kind in INTEGERS:
        return str(int(default or "0", 0))
    if field.kind == "bool":
        return str((default or "false").lower() == "true")
    return {"string": f'"{default or ""}"', "bytes": 'b""', "uuid": "_ZERO_UUID", "float64": "0.0"}[
        field.kind
    ]


def layout(union: Union, version: int, class_names: dict[str, str], struct: str = "") -> Layout:
    """Describe one version of a struct (of the whole message, when not named)."""
    schema = union.by_version[version]
    carried = [each for each in schema.structs[struct] if each.present(version)]
    made = {
        each.name: _layout_field(union, schema, version, class_names, each, struct)
        for each in carried
    }
    absent = [each for each in union.structs[struct] if each.name not in made]
    ruling = {each.name: each.ignorable for each in schema.structs[struct]}
    tagged = sorted(
        (each for each in made.values() if each.tag is not None), key=lambda each: each.tag or 0
    )
    return Layout(
        class_name=class_names[struct],
        is_flexible=union.is_flexible(version),
        fields=tuple(each for each in made.values() if each.tag is None),
        tagged=tuple(tagged),
        absent=tuple(class_field(each, class_names) for each in absent),
        refused=tuple(
            class_field(each, class_names)
            for each in absent
            if not ruling.get(each.name, each.ignorable)
        ),
    )


def _layout_field(
    union: Union,
    schema: Schema,
    version: int,
    class_names: dict[str, str],
    field: Field,
    struct: str,
) -> LayoutField:
    flexible = schema.flexible if field.flexible is None else field.flexible
    united = next(each for each in union.structs[struct] if each.name == field.name)
    return LayoutField(
        name=snake(field.name),
        kind="struct" if field.is_struct else field.kind,
        is_array=field.is_array,
        is_nullable=field.is_nullable(version),
        is_compact=flexible[0] <= version <= flexible[1],
        tag=field.tag if field.is_tagged(version) else None,
        struct=layout(union, version, class_names, field.kind) if field.is_struct else None,
        attribute=class_field(united, class_names),
    )

"""The sizes, special ids and prompt templates of one model, and their form in config.json.

Every number that the model code needs stands here; nothing else holds a literal size (docs/model.md 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

from photon.errors import ModelLoadError

T = TypeVar("T")


@dataclass(frozen=True)
class MoeConfig:
    """Mixture of experts in the layers from `start_layer` on (docs/model.md 4.7)."""

    num_experts: int
    start_layer: int
    experts_per_token: int
    expert_inner_dim: int

    def __post_init__(self) -> None:
        if not 1 <= self.experts_per_token <= self.num_experts:
            raise ModelLoadError(
                f"Each token goes through {self.experts_per_token} of {self.num_experts} experts; "
                f"allowed are 1 to {self.num_experts}."
            )


@dataclass(frozen=True)
class TextConfig:
    """The text decoder (docs/model.md 1.1). `rotary_dim` 0 means half of each head."""

    dim: int
    ff_dim: int
    n_layers: int
    vocab_size: int
    max_context: int
    n_heads: int
    n_kv_heads: int = 0
    rope_theta: float = 10_000.0
    rotary_dim: int = 0
    tau: bool = False
    tau_gelu: str = "none"
    moe: MoeConfig | None = None

    def __post_init__(self) -> None:
        _default(self, "n_kv_heads", self.n_heads)
        if not self.n_heads or self.dim % self.n_heads or self.n_heads % self.n_kv_heads:
            raise ModelLoadError(
                f"A text width of {self.dim} with {self.n_heads} heads and {self.n_kv_heads} key-value heads "
                "does not divide evenly."
            )
        _default(self, "rotary_dim", self.head_dim // 2)
        if self.rotary_dim % 2 or self.rotary_dim > self.head_dim:
            raise ModelLoadError(f"rotary_dim is {self.rotary_dim}; it must be even and at most {self.head_dim}.")
        if self.tau and self.n_kv_heads != self.n_heads:
            raise ModelLoadError("Tau attention needs as many key-value heads as heads.")
        if self.tau_gelu not in ("none", "tanh"):
            raise ModelLoadError(f"tau_gelu is {self.tau_gelu!r}; allowed are 'none' (exact) and 'tanh'.")

    @property
    def head_dim(self) -> int:
        return self.dim // self.n_heads

    @property
    def qkv_dim(self) -> int:
        """Rows of the fused projection: queries, keys, values."""
        return (self.n_heads + 2 * self.n_kv_heads) * self.head_dim

    def is_moe(self, layer: int) -> bool:
        return self.moe is not None and layer >= self.moe.start_layer


@dataclass(frozen=True)
class VisionConfig:
    """The vision tower (docs/model.md 1.2).

    `kind` selects the tower; `n_tokens` is the number of image embeddings (0: one per patch of a crop);
    `options` belongs to towers of other kinds, which leave the `enc_` fields at 0.
    """

    proj_out_dim: int
    crop_size: int
    kind: str = "vit"
    n_tokens: int = 0
    enc_dim: int = 0
    enc_patch_size: int = 14
    enc_n_layers: int = 0
    enc_ff_dim: int = 0
    enc_n_heads: int = 1
    in_channels: int = 3
    max_crops: int = 12
    overlap_margin: int = 4
    proj_inner_dim: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.enc_patch_size or not self.enc_n_heads or self.enc_dim % self.enc_n_heads:
            raise ModelLoadError(
                f"A vision width of {self.enc_dim} with {self.enc_n_heads} heads and patches of {self.enc_patch_size} "
                "does not divide evenly."
            )
        _default(self, "n_tokens", self.grid * self.grid)

    @property
    def grid(self) -> int:
        """Patches along one side of a crop."""
        return self.crop_size // self.enc_patch_size


@dataclass(frozen=True)
class RegionConfig:
    """Coordinate and size heads (docs/model.md 1.3). `linear_heads` and `norm` are Moondream 3's form."""

    dim: int
    coord_feat_dim: int
    coord_out_dim: int
    size_feat_dim: int
    size_out_dim: int
    inner_dim: int = 0
    linear_heads: bool = False
    norm: bool = False

    @property
    def coord_bins(self) -> int:
        return self.coord_out_dim

    @property
    def size_bins(self) -> int:
        """Bins of one side; the head holds width bins, then height bins."""
        return self.size_out_dim // 2


@dataclass(frozen=True)
class TokenizerConfig:
    """Special ids, prompt templates and banned ids.

    `templates[skill]` is {"prefix": ids, "suffix": ids}; query may add "reasoning" (the suffix when reasoning
    comes first) and caption is {length: ids}. `suppress[phase]` lists ids that may not follow the first
    generated token (docs/model.md 6, 6.2). `segment_vertices` is how many vertices, in 0..1 of it, a segment answer
    lists after its box; 0 means that it spells an SVG path instead (docs/model.md 7.6).
    """

    bos_id: int = 0
    eos_id: int = 0
    answer_id: int = 3
    thinking_id: int = 4
    coord_id: int = 5
    size_id: int = 6
    start_ground_points_id: int = 7
    end_ground_id: int = 9
    templates: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    suppress: dict[str, list[int]] = field(default_factory=dict)
    segment_vertices: int = 0


@dataclass(frozen=True)
class MoondreamConfig:
    text: TextConfig
    vision: VisionConfig
    region: RegionConfig
    tokenizer: TokenizerConfig

    def __post_init__(self) -> None:
        if not self.text.dim == self.vision.proj_out_dim == self.region.dim:
            raise ModelLoadError(
                f"The text width {self.text.dim}, the width of the image embeddings "
                f"{self.vision.proj_out_dim} and the region width {self.region.dim} must be equal."
            )

    @property
    def prefix_len(self) -> int:
        """Positions of the bidirectional block: BOS and the image embeddings."""
        return 1 + self.vision.n_tokens

    @property
    def skills(self) -> tuple[str, ...]:
        """The skills that this model has a prompt template for."""
        return tuple(self.tokenizer.templates)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MoondreamConfig:
        """Read the content of a config.json; raises ModelLoadError naming the section and field."""
        text, region = dict(_section(data, "text")), dict(_section(data, "region"))
        prefix = text.pop("prefix_attn", None)
        if "md3" in data:
            md3 = dict(_section(data, "md3"))
            moe = md3.pop("moe", None)
            if moe is not None:
                text["moe"] = _build(MoeConfig, _section({"md3.moe": moe}, "md3.moe"), "md3.moe")
            text |= {"tau": True, "tau_gelu": md3.pop("tau_gelu", "none")}
            text |= {"rope_theta": md3.pop("rope_theta", text.get("rope_theta", 10_000.0))}
            region |= {"linear_heads": True, "norm": md3.pop("region_ln", False)}
            if md3:
                raise ModelLoadError(f"config.json has unknown fields in section md3: {', '.join(md3)}.")
        config = cls(
            text=_build(TextConfig, text, "text"),
            vision=_build(VisionConfig, _section(data, "vision"), "vision"),
            region=_build(RegionConfig, region, "region"),
            tokenizer=_build(TokenizerConfig, _section(data, "tokenizer"), "tokenizer"),
        )
        if prefix not in (None, config.prefix_len):
            raise ModelLoadError(
                f"config.json says prefix_attn {prefix}, but BOS and {config.vision.n_tokens} image tokens "
                f"make {config.prefix_len}."
            )
        return config

    def to_dict(self) -> dict[str, Any]:
        """The inverse of `from_dict`, fit for JSON."""
        text, region = _plain(self.text), _plain(self.region)
        moe, tau, gelu = text.pop("moe"), text.pop("tau"), text.pop("tau_gelu")
        linear, norm = region.pop("linear_heads"), region.pop("norm")
        data = {
            "text": text,
            "vision": _plain(self.vision),
            "region": region,
            "tokenizer": _plain(self.tokenizer),
        }
        if tau or moe or linear:
            data["md3"] = {"tau_gelu": gelu, "rope_theta": text.pop("rope_theta"), "region_ln": norm}
            if moe is not None:
                data["md3"]["moe"] = _plain(moe)
        return data


def _default(config: object, name: str, value: int) -> None:
    """Fill a field left at 0 of a frozen dataclass."""
    if not getattr(config, name):
        object.__setattr__(config, name, value)


def _plain(config: Any) -> dict[str, Any]:
    return {f.name: getattr(config, f.name) for f in fields(config)}


def _section(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = data.get(name)
    if not isinstance(section, Mapping):
        raise ModelLoadError(f"config.json has no section {name!r}.")
    return section


def _build(kind: type[T], values: Mapping[str, Any], section: str) -> T:
    """A dataclass from a section, refusing unknown and missing fields by name."""
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    if surplus := sorted(set(values) - set(known)):
        raise ModelLoadError(f"config.json has unknown fields in section {section}: {', '.join(surplus)}.")
    required = {n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING}
    if missing := sorted(required - set(values)):
        raise ModelLoadError(f"config.json lacks fields in section {section}: {', '.join(missing)}.")
    for name, value in values.items():
        _check_type(section, name, value, str(known[name].type))
    return kind(**values)


def _check_type(section: str, name: str, value: Any, wanted: str) -> None:
    """Numbers, texts and flags must be such; sizes cannot be negative, while an id of -1 says that there is none."""
    kinds: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}
    allowed = kinds.get(wanted, (object,))
    fits = isinstance(value, allowed) and (bool in allowed or object in allowed or not isinstance(value, bool))
    if not fits or (wanted == "int" and section != "tokenizer" and value < 0):
        raise ModelLoadError(
            f"config.json has {name} {value!r} in section {section}; "
            f"it must be {'a whole number from 0' if wanted == 'int' else 'of type ' + wanted}."
        )

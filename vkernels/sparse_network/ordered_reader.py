"""Read the layers of one inference, group after group, and reorder those of a network that is not held in memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import perf_counter

from .network import Floats, Layers, SparseNetwork
from .reorder import Places, identity_places, reorder_layers

MIN_IMAGES_TO_REORDER = 256
"""Live images from which on reordering a layer pays."""


@dataclass
class OrderedReader:
    """Reads a network from the first layer to the last. `seconds`: the time that reordering took.

    A layer that is read again, for other images, has the order of its first reading.
    """

    network: SparseNetwork
    seconds: float = 0.0
    _places: dict[int, Places] = field(default_factory=dict)
    _ordered: dict[tuple[int, int], bool] = field(default_factory=dict)

    def read(self, first: int, last: int, images: int) -> Layers:
        """Layers from `first` up to `last`, exclusive, for so many live images; those before were read already."""
        layers = self.network.read(first, last)
        if self.network.held or layers.weight.ndim != 3:  # in order, or in blocks
            return layers
        start = perf_counter()
        layers = self._moved(layers, first, last, images)
        self.seconds += perf_counter() - start
        return layers

    def numbered(self, values: Floats, layer: int) -> Floats:
        """One value for each input of a layer, in the order in which features lie before it."""
        places = self._places.get(layer)
        if places is None:
            return values
        moved = values.copy()
        moved[places] = values
        return moved

    def _moved(self, layers: Layers, first: int, last: int, images: int) -> Layers:
        places = self._places.get(first)
        if self._ordered.setdefault((first, last), images >= MIN_IMAGES_TO_REORDER):
            before = identity_places(layers.inputs) if places is None else places
            layers, self._places[last] = reorder_layers(layers, before, last == self.network.layers)
        elif places is not None:
            column = layers.column.copy()
            column[0] = places.take(column[0])
            layers = replace(layers, column=column)
        return layers

"""Bundles that are damaged, or made to do harm, are refused with an error of ours before anything of them runs."""

import random
import struct
import zlib
from dataclasses import replace
from types import SimpleNamespace

import msgspec
import pytest

import vkernels as vk
from vkernels.bundles import container
from vkernels.bundles.bundle import open_bundle, write_bundle
from vkernels.bundles.container import HEADER, container_bytes, container_of, packed_files, signed_bytes
from vkernels.bundles.manifest import FORMAT, manifest_to_bytes
from vkernels.bundles.signing import read_key, signatures_to_bytes
from vkernels.bundles.verify import check_contents
from vkernels.runtime.objects import load_object, read_object


@pytest.fixture
def data(net):
    return net.read_bytes()


def opened(tmp_path, data, trust):
    path = tmp_path / "bad.vkb"
    path.write_bytes(data)
    return vk.load(path, trust=trust)


def test_any_flipped_bit_is_found(data, tmp_path, secret):
    seed = random.SystemRandom().getrandbits(64)
    print(f"seed {seed}")
    start = container_of(data, "net").start
    places = [*range(8 * HEADER.size), *random.Random(seed).sample(range(8 * HEADER.size, 8 * len(data)), 60)]
    places += random.Random(seed).sample(range(8 * (start - 100), 8 * start), 20)  # of signatures
    for place in places:
        bad = bytearray(data)
        bad[place // 8] ^= 1 << place % 8
        with pytest.raises(vk.BundleError):
            opened(tmp_path, bytes(bad), secret)


@pytest.mark.parametrize("trust", ["unsigned", None])
def test_flipped_bits_are_found_without_keys(data, tmp_path, trust):
    for place in (0, 9, 50, HEADER.size + 5, len(data) // 2, len(data) - 1):
        bad = bytearray(data)
        bad[place] ^= 16
        with pytest.raises(vk.BundleError):
            opened(tmp_path, bytes(bad), trust)


def test_truncated_and_extended_files_are_refused(data, tmp_path, secret):
    for size in (0, 7, 8, HEADER.size - 1, HEADER.size, len(data) // 2, len(data) - 1):
        with pytest.raises(vk.BundleError):
            opened(tmp_path, data[:size], secret)
    with pytest.raises(vk.BundleError, match="states"):
        opened(tmp_path, data + b"\0", secret)


@pytest.mark.parametrize(
    ("number", "said"), [(FORMAT + 1, "newer than this vkernels"), (0, "older than this vkernels")]
)
def test_other_formats_are_told(data, tmp_path, number, said):
    with pytest.raises(vk.BundleError, match=said):
        opened(tmp_path, data[:8] + struct.pack("<I", number) + data[12:], "unsigned")


def forged(built, **changes):
    """A bundle with other entries of its manifest, and hashes that fit them."""
    manifest, files = built
    entries, stored = packed_files(files)
    return container_bytes(msgspec.structs.replace(manifest, **{"files": entries} | changes), stored, b"")


def entry(built, **changes):
    entries, _ = packed_files(built[1])
    return (msgspec.structs.replace(entries[0], **changes), *entries[1:])


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/passwd", "a/../b", "a//b", "C:\\x", "a\0b", "a\n", "", ".hidden", "A"]
)
def test_names_that_leave_the_bundle_are_refused(built, tmp_path, name):
    with pytest.raises(vk.BundleError, match="manifest cannot be read"):
        opened(tmp_path, forged(built, files=entry(built, name=name)), "unsigned")


def test_forged_manifests_are_refused(built, tmp_path):
    entries, _ = packed_files(built[1])
    same = (entries[0], msgspec.structs.replace(entries[1], name=entries[0].name), *entries[2:])
    gone = msgspec.structs.replace(entries[0], name="cpu/elsewhere.o")
    kernels = built[0].kernels
    forgeries = {
        "two files have the same name": {"files": same},
        "is missing": {"files": (gone, *entries[1:])},
        "does not follow": {"files": entry(built, offset=1)},
        "two kernels have the same name": {"kernels": (kernels[0], kernels[0])},
        "no function can be": {"kernels": (msgspec.structs.replace(kernels[0], name="a b"),)},
        "manifest cannot be read": {"kernels": (msgspec.structs.replace(kernels[0], name="a\x1b[2J"),)},
        "the files take": {"files": entries[:-1], "kernels": (), "support": ()},
        "too large": {"files": entry(built, size=container.MAX_FILE + 1)},
    }
    for said, changes in forgeries.items():
        with pytest.raises(vk.BundleError, match=said):
            opened(tmp_path, forged(built, **changes), "unsigned")


def test_bytes_of_the_header_that_must_be_zero_are_named(data, tmp_path):
    with pytest.raises(vk.BundleError, match="12 to 15"):
        opened(tmp_path, data[:12] + b"\1\0\0\0" + data[16:], "unsigned")


@pytest.mark.parametrize("trust", [True, 3, {"unsigned"}, ["unsigned", None], b"key"], ids=repr)
def test_trust_that_names_no_files_is_refused(data, tmp_path, trust):
    with pytest.raises(vk.OptionError, match="trust: expected a file"):
        opened(tmp_path, data, trust)


def test_a_file_that_unpacks_to_more_than_stated_is_refused(built):
    manifest, files = built
    files = {**files, "cpu/bomb.o": bytes(1 << 24)}
    entries, stored = packed_files(files)
    listed = [replace_size(each, 100) if each.name == "cpu/bomb.o" else each for each in entries]
    made = container_of(container_bytes(msgspec.structs.replace(manifest, files=(*listed,)), stored, b""), "bomb")
    with pytest.raises(vk.BundleError, match="does not unpack to the 100 bytes"):
        made.read("cpu/bomb.o")


def replace_size(file, size):
    return msgspec.structs.replace(file, size=size)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b"[" * 100_000, b'{"provenance": 1}', b"\xff\xfe", b'{"files": []}']
)
def test_manifests_that_are_none_are_refused(text, tmp_path, monkeypatch):
    monkeypatch.setattr(container, "manifest_to_bytes", lambda manifest: text)
    with pytest.raises(vk.BundleError, match="manifest cannot be read"):
        opened(tmp_path, container_bytes(SimpleNamespace(format=1), b"", b""), "unsigned")


def test_what_is_not_signed_is_loaded_only_where_that_is_asked_for(built, tmp_path, secret):
    path = tmp_path / "net.vkb"
    write_bundle(path, *built)
    for trust in (None, secret):
        with pytest.raises(vk.UntrustedError, match="not signed"):
            vk.load(path, trust=trust)
    assert vk.load(path, trust="unsigned").bundle.signer is None
    assert vk.load(path, trust=["unsigned", secret]).bundle.signer is None


def test_signatures_of_other_keys_and_contents_are_refused(built, net, tmp_path, secret):
    other = tmp_path / "other"
    other.write_bytes(bytes(32))
    with pytest.raises(vk.UntrustedError, match="keys that are not known here"):
        vk.load(net, trust=other)
    manifest, files = built
    entries, stored = packed_files(files)
    changed = msgspec.structs.replace(manifest, files=entries, kernels=manifest.kernels[:1])
    whole = msgspec.structs.replace(manifest, files=entries)
    of_another = signatures_to_bytes([read_key(secret).sign(signed_bytes(FORMAT, manifest_to_bytes(whole)))])
    (tmp_path / "moved.vkb").write_bytes(container_bytes(changed, stored, of_another))
    for trust in (secret, ["unsigned", secret]):
        with pytest.raises(vk.UntrustedError, match="is wrong"):
            vk.load(tmp_path / "moved.vkb", trust=trust)
    assert open_bundle(net, secret).signer.key == read_key(secret).id


def test_known_keys_need_no_naming(net, tmp_path, secret, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(vk.UntrustedError):
        vk.load(net)
    folder = tmp_path / "vkernels" / "keys"
    folder.mkdir(parents=True)
    (folder / "ours").write_bytes(secret.read_bytes())
    assert vk.load(net).bundle.signer is not None


def test_ed25519_keys_sign_and_public_ones_check(built, tmp_path):
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = Ed25519PrivateKey.generate()
    private, public = tmp_path / "key.pem", tmp_path / "key.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    write_bundle(tmp_path / "net.vkb", *built, [read_key(private)])
    assert vk.load(tmp_path / "net.vkb", trust=public).bundle.signer.algorithm == "ed25519"
    with pytest.raises(vk.OptionError, match="public"):
        read_key(public).sign(b"")


def test_contents_that_are_wrong_are_errors_of_the_bundle(built, tmp_path):
    manifest, files = built
    code = manifest.kernels[0].variants[0].codes[0]
    for name, content in {code.cpu.object: b"\x7fELF", code.plan: b'{"split": 1}'}.items():
        write_bundle(tmp_path / "bad.vkb", manifest, {**files, name: content})
        with pytest.raises(vk.BundleError, match=name):
            check_contents(open_bundle(tmp_path / "bad.vkb", "unsigned"))


# Object files


def some_object(built):
    name = built[0].kernels[1].variants[0].codes[0].cpu.object
    return built[1][name]


def test_damaged_objects_are_refused_or_harmless(built):
    """Damage of an object file in a signed bundle is its builder's; still, reading one raises nothing else."""
    data, refused = some_object(built), 0
    seed = random.SystemRandom().getrandbits(64)
    print(f"seed {seed}")
    draw = random.Random(seed)
    for _ in range(300):
        bad = bytearray(data)
        for _ in range(draw.randint(1, 8)):
            bad[draw.randrange(len(bad))] = draw.randrange(256)
        cut = bytes(bad) if draw.random() < 0.7 else bytes(bad[: draw.randrange(len(bad))])
        try:
            read_object(cut)
        except vk.Error:
            refused += 1
    assert refused > 30


@pytest.mark.parametrize("at", [2**31, 2**63 - 1, 2**63, 2**64 - 1])
def test_sections_beyond_all_memory_are_refused(built, at):
    bad = bytearray(some_object(built))
    bad[40:48] = struct.pack("<Q", at)
    with pytest.raises(vk.FileError, match="damaged object file"):
        read_object(bytes(bad))


def test_code_that_needs_more_than_is_allowed_is_refused(built):
    data = some_object(built)
    head = bytearray(data)
    head[18:20] = struct.pack("<H", 183)  # AArch64's number
    with pytest.raises(vk.FileError, match=r"code for|not supported"):
        load_object(bytes(head))
    at = data.index(b"softmax_prepare\0")
    assert load_object(data).addresses.keys() == {"softmax_prepare", "softmax_launch_0"}
    renamed = data.replace(b"softmax_prepare\0", b"system\0" + data[at + 7 : at + 16])
    assert "system" in load_object(renamed).addresses  # its own, and never the C library's


def test_functions_must_be_those_that_the_manifest_states(built, net, secret):
    manifest, files = built
    code = manifest.kernels[1].variants[0].codes[0]
    wrong = msgspec.structs.replace(code, cpu=msgspec.structs.replace(code.cpu, prepare="other"))
    variant = msgspec.structs.replace(manifest.kernels[1].variants[0], codes=(wrong,))
    kernel = msgspec.structs.replace(manifest.kernels[1], variants=(variant,))
    entries, stored = packed_files(files)
    data = container_bytes(msgspec.structs.replace(manifest, files=entries, kernels=(kernel,)), stored, b"")
    bundle = replace(open_bundle(net, secret), container=container_of(data, "net.vkb"))
    with pytest.raises(vk.BundleError, match="no function other"):
        check_contents(bundle)


def test_content_that_is_the_same_is_stored_once_and_packed(built):
    entries, stored = packed_files(built[1])
    assert len(stored) < sum(map(len, built[1].values()))
    assert any(each.compression == "zlib" for each in entries)
    first = next(each for each in entries if each.compression == "zlib")
    assert zlib.decompress(stored[first.offset : first.offset + first.stored]) == built[1][first.name]

"""The catalogue: complete for every kind, true to CUDA's headers, strict with what users write."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from warpserve.cuda_shim.catalogue import (
    Catalogue,
    CatalogueError,
    FileError,
    GpuSpec,
    Source,
    SpecError,
    UnknownNameError,
    attributes,
    docs,
    export,
    machine,
    properties,
)
from warpserve.cuda_shim.catalogue.cli import gpus
from warpserve.cuda_shim.catalogue.files import user_folders

BUILT_IN = Catalogue(folders=[])

# Attributes that real hardware of the catalogue may answer with 0 or, for a NUMA node, with -1.
MAY_BE_ZERO = re.compile(
    r"compute_capability_minor|pci_(bus|device|domain)_id|multi_gpu_board|.*numa_(id|config)"
    r"|.*supported|.*_v1|compute_mode|integrated|kernel_exec_timeout|tcc_driver|ecc_enabled|cluster_launch"
    r"|pageable_memory_access.*|direct_managed_mem_access_from_host|can_flush_remote_writes"
    r"|mem_decompress_.*|mps_enabled|logical_endpoint_.*|tensor_map_large_tensor_min_size"
    r"|max_oversized_shared_memory_per_block|multi_gpu_board_group_id"
)


def headers(name: str) -> list[Path]:
    """Copies of a CUDA header on this machine: the toolkit's and those of pip packages."""
    roots = [Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"]
    for entry in sys.path:
        roots += Path(entry).glob("nvidia/*/include")
    return sorted({(root / name).resolve() for root in roots if (root / name).is_file()})


@pytest.fixture(params=BUILT_IN.kinds)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class TestKinds:
    def test_the_promised_kinds_are_there(self) -> None:
        promised = "h100-sxm h100-pcie h200 b200 gb200 b300 gb300 a100-40 a100-80 l40s a10g l4"
        assert set(BUILT_IN.kinds) >= {*promised.split(), "rtx-4090", "rtx-pro-6000"}

    def test_every_attribute_has_a_value_and_no_zero_where_hardware_has_none(
        self, kind: str
    ) -> None:
        device = machine(kind, BUILT_IN).devices[0]
        assert list(device.attributes) == list(attributes.NAMES)
        for name, value in device.attributes.items():
            assert value > 0 or MAY_BE_ZERO.fullmatch(name), name
            assert -1 <= value < 2**32

    def test_every_value_has_a_source_and_every_assumption_a_reason(self, kind: str) -> None:
        gpu = BUILT_IN.gpu(kind)
        own_words = {"kind", "summary", "aliases", "boxes", "attributes", "sources"}
        unset = {field for field, value in gpu if value in (None, 0)}
        expected = {field for field, _ in gpu} - own_words - unset
        expected |= {f"attributes.{name}" for name in gpu.attributes}
        assert expected <= gpu.sources.keys()
        for field, source in gpu.sources.items():
            assert source.status != "user", field
            assert source.status != "documented" or source.url, field
            assert len(source.cite) > 15, field

    def test_figures_agree_with_each_other(self, kind: str) -> None:
        gpu = BUILT_IN.gpu(kind)
        peak = gpu.memory_clock_max_hz * 2 * gpu.memory_bus_width_bits / 8
        assert gpu.memory_bandwidth_bytes_per_s == pytest.approx(peak, rel=0.03)
        fp32 = gpu.sm_count * gpu.cuda_cores_per_sm * 2 * gpu.sm_clock_max_hz
        assert gpu.fp32_dense_flops == pytest.approx(fp32, rel=0.15)
        assert gpu.bf16_dense_flops >= 1.9 * gpu.tf32_dense_flops
        assert 0.97 < gpu.memory_usable_bytes / gpu.memory_total_bytes < 1
        assert gpu.context_memory_bytes < 2**30
        assert gpu.host_copy_bandwidth_bytes_per_s < max(
            gpu.pcie_bandwidth_bytes_per_s, 450e9 if kind.startswith("gb") else 0
        )

    def test_recorded_memory_of_the_h100(self) -> None:
        gpu = BUILT_IN.gpu("h100-sxm")
        assert gpu.memory_total_bytes == 81559 * 2**20
        assert gpu.memory_usable_bytes == 85_017_755_648
        assert gpu.memory_reserved_bytes == pytest.approx(480 * 2**20, rel=0.001)

    @pytest.mark.parametrize("name", ["H100", "h100_sxm", "h100-sxm5", " h100-sxm "])
    def test_other_spellings(self, name: str) -> None:
        assert BUILT_IN.gpu(name).kind == "h100-sxm"

    def test_unknown_names_are_answered_with_the_nearest(self) -> None:
        with pytest.raises(UnknownNameError, match="Did you mean 'h100-sxm'"):
            BUILT_IN.gpu("h100-smx")
        with pytest.raises(UnknownNameError, match=r"Known: .*l40s"):
            BUILT_IN.gpu("zzz")


class TestAgainstHeaders:
    def test_numbers_known_by_heart(self) -> None:
        assert len(attributes.NAMES) == 161
        assert attributes.NUMBERS["max_threads_per_block"] == 1
        assert attributes.NUMBERS["compute_capability_major"] == 75
        assert attributes.NUMBERS["max_blocks_per_multiprocessor"] == 106
        assert attributes.NUMBERS["host_numa_id"] == 134

    def test_every_enumerator_is_known(self) -> None:
        found = headers("cuda.h")
        if not found:
            pytest.skip("no cuda.h on this machine")
        for path in found:
            text = path.read_text(errors="replace")
            body = re.search(r"enum CUdevice_attribute_enum \{(.*?)\} ", text, re.DOTALL)
            assert body
            numbers = re.findall(r"CU_DEVICE_ATTRIBUTE_(\w+)\s*=\s*(\d+)", body[1])
            by_number: dict[int, set[str]] = {}
            for name, number in numbers:
                by_number.setdefault(int(number), set()).add(name.lower())
            for value, names in by_number.items():
                assert attributes.NAMES[value - 1] in names, path

    def test_every_member_is_known_in_its_order(self) -> None:
        found = headers("driver_types.h")
        if not found:
            pytest.skip("no driver_types.h on this machine")
        for path in found:
            text = path.read_text(errors="replace")
            body = re.search(r"struct __device_builtin__ cudaDeviceProp\s*\{(.*?)\n\}", text, re.S)
            assert body
            code = re.sub(r"/\*.*?\*/", "", body[1], flags=re.DOTALL)
            names = re.findall(r"(\w+)(?:\[\d+\])?;", code)
            major: properties.CudaMajor = 12 if "clockRate" in names else 13
            assert [m.name for m in properties.members(major)] == names[:-1]
            assert f"reserved[{properties.RESERVED_INTS[major]}]" in code

    def test_layout_is_the_compilers(self, tmp_path: Path) -> None:
        compiler = shutil.which("gcc") or shutil.which("cc")
        found = [path for path in headers("driver_types.h") if (path.parent / "crt").is_dir()]
        if not compiler or not found:
            pytest.skip("no C compiler or no complete CUDA headers")
        text = found[0].read_text(errors="replace")
        major: properties.CudaMajor = 12 if re.search(r"\bclockRate;", text) else 13
        members = list(properties.members(major))
        offsets = [struct.calcsize(_layout_before(members, index)) for index in range(len(members))]
        checks = "\n".join(
            f'_Static_assert(offsetof(struct cudaDeviceProp, {member.name}) == {offset}, "");'
            for member, offset in zip(members, offsets, strict=True)
        )
        size = struct.calcsize(properties.layout(major))
        source = tmp_path / "layout.c"
        source.write_text(
            f"#include <stddef.h>\n#include <driver_types.h>\n{checks}\n"
            f'_Static_assert(sizeof(struct cudaDeviceProp) == {size}, "");\n'
        )
        command = [compiler, "-fsyntax-only", "-w", f"-I{found[0].parent}", str(source)]
        subprocess.run(command, check=True)

    def test_sizes(self) -> None:
        assert struct.calcsize(properties.layout(12)) == 1032
        assert struct.calcsize(properties.layout(13)) == 1008


def _layout_before(members: list[properties.Member], index: int) -> str:
    """The members before `index`, padded to where that member starts."""
    return "@" + "".join(m.format for m in members[:index]) + f"0{members[index].format[-1]}"


class TestProperties:
    def test_values_stand_where_cuda_reads_them(self) -> None:
        device = machine("h100-sxm:2", BUILT_IN).devices[1]
        for major in (12, 13):
            values = struct.unpack(properties.layout(major), device.properties(major))
            names = [m.name for m in properties.members(major) for _ in (m.attributes or (0,))]
            first = {name: values[names.index(name)] for name in names}
            assert first["name"].rstrip(b"\0") == b"NVIDIA H100 80GB HBM3"
            assert first["uuid"] == device.uuid.bytes
            assert first["totalGlobalMem"] == 85_017_755_648
            assert first["multiProcessorCount"] == 132
            assert first["maxBlocksPerMultiProcessor"] == 32
            assert first["pciBusID"] == 0x43
        assert first["gpuPciDeviceID"] == 0x233010DE


class TestSpecifications:
    @pytest.mark.parametrize(
        ("text", "spec"),
        [
            ("l4", GpuSpec("l4")),
            ("h100-sxm:8", GpuSpec("h100-sxm", 8)),
            ("a100-pcie-80:2@pcie-nvlink-pairs", GpuSpec("a100-pcie-80", 2, "pcie-nvlink-pairs")),
            ("b200@hgx-8", GpuSpec("b200", 1, "hgx-8")),
        ],
    )
    def test_reads(self, text: str, spec: GpuSpec) -> None:
        assert GpuSpec.parse(text) == spec
        assert GpuSpec.parse(str(spec)) == spec

    @pytest.mark.parametrize("text", ["", ":8", "h100:", "h100:-1", "h100:0", "h100:8@", "a,b"])
    def test_refuses(self, text: str) -> None:
        with pytest.raises(SpecError, match="Write "):
            GpuSpec.parse(text)

    def test_more_than_the_box_holds(self) -> None:
        with pytest.raises(SpecError, match="box 'hgx-8' has 8 slots"):
            machine("h100-sxm:9", BUILT_IN)

    def test_takes_the_first_usual_box_that_is_large_enough(self) -> None:
        assert machine("rtx-4090:4", BUILT_IN).box.kind == "workstation-4"
        assert machine("rtx-4090:5", BUILT_IN).box.kind == "pcie-8"


class TestTopology:
    def test_nvswitch_joins_all(self) -> None:
        box = machine("h100-sxm:8", BUILT_IN)
        link = box.link(0, 7)
        assert (link.level, link.nvlink_count, link.bandwidth_bytes_per_s) == ("NV", 18, 450e9)
        assert box.devices[0].attributes["multicast_supported"] == 1

    def test_bridges_join_neighbours(self) -> None:
        box = machine("h100-pcie:4@pcie-nvlink-pairs", BUILT_IN)
        assert [box.link(0, other).level for other in (1, 2, 3)] == ["NV", "NODE", "NODE"]
        assert box.devices[0].attributes["multicast_supported"] == 0

    def test_pcie_levels_and_peers(self) -> None:
        box = machine("l4:8", BUILT_IN)
        assert box.link(0, 1).level == "NODE"
        assert box.link(0, 7).level == "SYS"
        assert box.link(0, 1).peer_to_peer
        assert not machine("rtx-4090:2", BUILT_IN).link(0, 1).peer_to_peer

    @pytest.mark.parametrize(
        ("spec", "is_peer"),
        [
            ("l4:2@pcie-8-host", False),
            ("rtx-pro-6000:2", False),
            ("rtx-pro-6000:2@pcie-8", True),
            ("h100-sxm:2", True),
        ],
    )
    def test_a_box_lets_cards_reach_each_other_or_not(self, spec: str, is_peer: bool) -> None:
        assert machine(spec, BUILT_IN).link(0, 1).peer_to_peer is is_peer

    def test_a_device_has_no_link_to_itself(self) -> None:
        with pytest.raises(ValueError, match="no link to itself"):
            machine("l4:2", BUILT_IN).link(1, 1)

    def test_devices_are_told_apart_and_stay_the_same(self) -> None:
        first, second = (machine("h100-sxm:8", BUILT_IN).devices for _ in range(2))
        assert len({device.uuid for device in first}) == 8
        assert [d.uuid for d in first] == [d.uuid for d in second]

    def test_every_box_is_usable(self) -> None:
        for name in BUILT_IN.boxes:
            assert BUILT_IN.box(name).slots

    def test_unknown_box(self) -> None:
        with pytest.raises(UnknownNameError, match="Did you mean 'hgx-8'"):
            machine("h100-sxm:8@hgx8", BUILT_IN)


class TestUserFiles:
    def write(self, folder: Path, name: str, text: str) -> Catalogue:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return Catalogue(folders=[folder])

    def test_ten_lines_are_enough(self, tmp_path: Path) -> None:
        example = re.search(r"```toml\n(.*?)```", docs.TARGET.read_text(), re.DOTALL)
        assert example
        assert len(example[1].splitlines()) <= 10
        gpu = self.write(tmp_path, "h100-128.toml", example[1]).gpu("h100-128")
        assert gpu.memory_bandwidth_bytes_per_s == 4.2e12
        assert gpu.bf16_dense_flops == BUILT_IN.gpu("h100-sxm").bf16_dense_flops
        assert gpu.aliases == []
        assert gpu.sources["memory_total_bytes"].status == "user"
        assert gpu.sources["bf16_dense_flops"].status == "assumed"
        assert gpu.sources["bf16_dense_flops"].cite.startswith("as the h100-sxm: NVIDIA H100")
        assert gpu.sources["attributes.warp_size"].status == "documented"

    def test_attributes_are_merged_and_sources_kept(self, tmp_path: Path) -> None:
        text = """
            base = "h100-sxm"
            [attributes]
            max_blocks_per_multiprocessor = 64
            [[source]]
            status = "assumed"
            cite = "a guess about the next generation"
            fields = ["attributes.max_*"]
        """
        gpu = self.write(tmp_path, "next.toml", text).gpu("next")
        assert gpu.attributes["max_blocks_per_multiprocessor"] == 64
        assert gpu.attributes["warp_size"] == 32
        assert gpu.sources["attributes.max_blocks_per_multiprocessor"].status == "assumed"

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ('base = "h100-smx"', "base: no file is called 'h100-smx'. Did you mean 'h100-sxm'"),
            ('base = "l4"\nmemory_total_byte = 1', "no such field. Did you mean 'memory_total_by"),
            ('base = "l4"\nsm_count = "many"', "sm_count: Input should be a valid integer"),
            ('base = "l4"\nsm_count = 0', "sm_count: Input should be greater than 0"),
            ('base = "l4"\narchitecture = "volta"', "'ampere', 'ada', 'hopper' or 'blackwell'"),
            ('base = "l4"\nmemory_usable_bytes = 99_000_000_000', "larger than memory_total"),
            ('base = "l4"\nnvlink_link_count = 4', "nvlink_link_bandwidth_bytes_per_s go together"),
            ('base = "l4"\nboxes = ["hgx8"]', "boxes: no box is called 'hgx8'. Did you mean"),
            ('base = "l4"\naliases = ["l40s"]', "'l40s' already names another GPU"),
            ('base = "l4"\n[attributes]\nwarp_sise = 32', "Did you mean 'warp_size'"),
            ('base = "l4"\n[attributes]\nl2_cache_size = 1', "follows from other fields"),
            ('base = "mine"', "circle"),
            ('name = "alone"', "sm_count: missing; write it or name a base that has it"),
            ('kind = "x"\nbase = "l4"', "kind: not written in a file"),
            ("base = ", "Invalid value"),
            (
                'base = "l4"\n[[source]]\nstatus = "recorded"\ncite = "x"\nfields = ["tm_*"]',
                "'tm_*' matches no field",
            ),
        ],
    )
    def test_says_what_is_wrong_and_where(self, tmp_path: Path, text: str, complaint: str) -> None:
        with pytest.raises(FileError, match=re.escape(complaint)) as raised:
            self.write(tmp_path, "mine.toml", text).gpu(
                "mine-by-alias" if "aliases" in text else "mine"
            )
        assert "mine.toml" in str(raised.value)

    def test_a_taken_name_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(FileError, match="already described"):
            self.write(tmp_path, "l4.toml", 'base = "l40s"')

    def test_own_boxes(self, tmp_path: Path) -> None:
        slots = ", ".join(
            f'{{ pci_bus_id = "0000:{bus:02X}:00.0", numa_node = 0, pcie_switch = 0 }}'
            for bus in range(1, 17)
        )
        text = f"""
            summary = "16 on one switch"
            nvlink = "none"
            slots = [{slots}]
            [[source]]
            status = "assumed"
            cite = "a wish"
            fields = ["slots"]
        """
        catalogue = self.write(tmp_path, "boxes/sixteen.toml", text)
        assert machine("l4:16@sixteen", catalogue).link(0, 15).level == "PIX"

    def test_where_folders_are_looked_for(self, tmp_path: Path) -> None:
        own = tmp_path / "config" / "warpserve" / "gpus"
        own.mkdir(parents=True)
        named = tmp_path / "named"
        named.mkdir()
        environ = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "WARPSERVE_GPU_PATH": str(named)}
        assert user_folders(environ) == [named, own]
        assert user_folders({"HOME": str(tmp_path)}) == []
        with pytest.raises(CatalogueError, match="WARPSERVE_GPU_PATH"):
            user_folders({"WARPSERVE_GPU_PATH": str(tmp_path / "gone")})


class TestExport:
    def test_lines(self) -> None:
        box = machine("b200:2", BUILT_IN)
        read = dict(line.split(" ", 1) for line in export.lines(box))
        assert read["device_count"] == "2"
        assert read["nvml_architecture"] == "10"
        assert read["nvml_version"] == "13.580.105.08"
        assert read["gpu.name"] == "NVIDIA B200"
        assert read["gpu.ecc_enabled"] == "1"
        assert read["gpu.bf16_dense_flops"] == "2250000000000000"
        assert read["device.1.attribute.106"] == "32"
        assert bytes.fromhex(read["device.1.properties.13"]) == box.devices[1].properties(13)
        assert read["link.0.1"] == "NV 18 900000000000 1"
        assert not any("\n" in value for value in read.values())


class TestCommand:
    @pytest.fixture
    def app(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> typer.Typer:
        monkeypatch.delenv("WARPSERVE_GPU_PATH", raising=False)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        monkeypatch.setenv("COLUMNS", "160")
        app = typer.Typer()
        app.command()(gpus)
        return app

    def test_lists(self, app: typer.Typer) -> None:
        output = CliRunner().invoke(app, []).output
        assert all(kind in output for kind in BUILT_IN.kinds)

    def test_explains(self, app: typer.Typer) -> None:
        brief = CliRunner().invoke(app, ["h100-sxm"]).output
        assert "0x233010DE" in brief
        assert "white paper" not in brief
        full = CliRunner().invoke(app, ["h100-sxm", "--sources"]).output
        assert "white paper" in full

    def test_json(self, app: typer.Typer) -> None:
        one = json.loads(CliRunner().invoke(app, ["l4", "--json"]).output)
        assert one["memory_total_bytes"] == 23034 * 2**20
        assert "sources" not in one
        every = json.loads(CliRunner().invoke(app, ["--json", "--sources"]).output)
        assert [gpu["kind"] for gpu in every] == BUILT_IN.kinds
        assert Source(**every[0]["sources"]["sm_count"]).status == "recorded"

    def test_unknown(self, app: typer.Typer) -> None:
        result = CliRunner().invoke(app, ["h100-smx"])
        assert result.exit_code == 2
        assert "Did you mean 'h100-sxm'" in result.output


def test_the_document_is_up_to_date() -> None:
    assert docs.main(["--check"]) == 0

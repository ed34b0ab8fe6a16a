"""SGLang's own pages for random requests: on the virtual GPU the same ones as on torch's CPU.

``sglang_pages.py PAGE_SIZE REQUESTS SEED``, in SGLang's environment. Two sets of its allocator,
request table and radix cache, one on each device, get the same requests: matched, written, inserted
and evicted. All of them are compared again and again. Prints how many requests found a prefix, and
how many tokens were evicted.
"""

import json
import random
import sys
from array import array
from types import SimpleNamespace

import torch
from sglang.srt.mem_cache.allocator import paged
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
from sglang.srt.mem_cache.radix_cache import RadixCache, RadixKey
from warpserve_autoload.torch_ops import control_memory

PAGE_SIZE, REQUESTS, SEED = map(int, sys.argv[1:])
TOKENS = 1_048_576  # enough for the free list to be larger than control memory by itself
LENGTH = 400

try:
    from sglang.srt.mem_cache import allocation

    allocation.attention_backends = lambda: ("fa3", "fa3")
except ImportError:  # SGLang 0.5.14 has it elsewhere
    from sglang.srt.mem_cache import common as allocation

    allocation.get_global_server_args = lambda: SimpleNamespace(attention_backend="fa3")


class OnEach:
    """On the CPU, SGLang's own way without Triton, where its allocator does not take it itself."""

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        def launch(begins, ends, last, free_pages, out, upper, page_size):
            if out.device.type == "cpu":
                paged.alloc_extend_naive(begins, ends, last, free_pages, out, page_size, "cpu")
            else:
                self.kernel[grid](begins, ends, last, free_pages, out, upper, page_size)

        return launch


if not hasattr(paged, "alloc_decode_naive"):
    paged.alloc_extend_kernel = OnEach(paged.alloc_extend_kernel)


class Side:
    def __init__(self, device):
        self.device = device
        if PAGE_SIZE == 1:
            self.pages = TokenToKVPoolAllocator(TOKENS, torch.bfloat16, device, None, False)
        else:
            self.pages = PagedTokenToKVPoolAllocator(
                TOKENS, PAGE_SIZE, torch.bfloat16, device, None, False
            )
        self.rows = ReqToTokenPool(64, LENGTH, device, False)
        self.cache = RadixCache(
            CacheInitParams(
                disable=False,
                req_to_token_pool=self.rows,
                token_to_kv_pool_allocator=self.pages,
                page_size=PAGE_SIZE,
            )
        )
        self.found = self.evicted = 0

    def begin(self, tokens):
        # The last token is always computed.
        key = RadixKey(array("q", tokens[:-1]), None)
        match = self.cache.match_prefix(MatchPrefixParams(key=key))
        node = match.last_device_node
        if hasattr(self.cache, "path_device_indices"):
            prefix = self.cache.path_device_indices(node)
        else:
            prefix = match.device_indices
        cached = len(prefix)
        self.cache.inc_lock_ref(node)
        self.found += cached > 0
        row = self.take_row()
        seq_lens, cached_lens = self.tensors(len(tokens)), self.tensors(cached)
        new = len(tokens) - cached
        short = new + PAGE_SIZE - self.pages.available_size()
        if short > 0:
            evicted = self.cache.evict(EvictParams(num_tokens=short))
            self.evicted += evicted.num_tokens_evicted
        if PAGE_SIZE == 1:
            places = self.pages.alloc(new)
        else:
            last = prefix[-1:] if cached else torch.full((1,), -1, device=self.device)
            places = self.pages.alloc_extend(*cached_lens, *seq_lens, last, new)
        allocation.write_cache_indices(
            places, *self.tensors(row), *cached_lens, *seq_lens, *self.tensors(new),
            [prefix], self.rows,
        )  # fmt: skip
        return tokens, row, cached, node

    def end(self, request):
        tokens, row, cached, node = request
        places = self.rows.req_to_token[row, : len(tokens)]
        kept = len(tokens) // PAGE_SIZE * PAGE_SIZE
        key = RadixKey(array("q", tokens[:kept]), None)
        values = places[:kept].to(torch.int64, copy=True)
        known = self.cache.insert(InsertParams(key=key, value=values)).prefix_len
        self.free(places, cached, known)
        self.free(places, kept, len(tokens))
        self.cache.dec_lock_ref(node)
        self.give_row(row)

    def free(self, places, begin, end):
        if hasattr(self.pages, "free_segment"):
            self.pages.free_segment(places[begin:end], start_pos=begin)
        else:
            self.pages.free(places[begin:end])

    def take_row(self):
        if hasattr(self.rows, "alloc_rows"):
            return self.rows.alloc_rows(1)[0]
        return self.rows.alloc([SimpleNamespace(req_pool_idx=None)])[0]

    def give_row(self, row):
        if hasattr(self.rows, "free_rows"):
            self.rows.free_rows([row])
        else:
            self.rows.free(SimpleNamespace(req_pool_idx=row))

    def tensors(self, value):
        on_host = torch.tensor([value], dtype=torch.int64)
        return on_host.to(self.device), on_host

    def state(self):
        nodes, values = [self.cache.root_node], []
        while nodes:
            node = nodes.pop()
            nodes += [node.children[key] for key in sorted(node.children, key=str)]
            values.append(torch.as_tensor(node.value).cpu().tolist())
        if hasattr(self.pages, "get_all_free_pages"):
            free = self.pages.get_all_free_pages()
        else:
            free = torch.cat((self.pages.free_pages, self.pages.release_pages))
        return free.cpu().tolist(), self.rows.req_to_token.cpu().tolist(), values


def requests(drawn):
    families = [[drawn.randrange(1000) for _ in range(300)] for _ in range(200)]
    while True:
        shared = drawn.choice(families)[: drawn.randrange(1, 300)]
        yield shared + [drawn.randrange(1000) for _ in range(drawn.randrange(1, 100))]


def main():
    drawn = random.Random(SEED)
    made = requests(drawn)
    with control_memory():
        sides = [Side("cpu"), Side("cuda")]
        # As if all but some of the memory were taken.
        for side in sides:
            side.pages.alloc((TOKENS - 20_000) // PAGE_SIZE * PAGE_SIZE)
        under_way = []
        for number in range(REQUESTS):
            if len(under_way) == 30:
                ended = under_way.pop(drawn.randrange(len(under_way)))
                for side, request in zip(sides, ended, strict=True):
                    side.end(request)
            tokens = next(made)
            under_way.append([side.begin(tokens) for side in sides])
            if number % 1000 == 999:
                assert sides[0].state() == sides[1].state(), number
    assert (sides[0].found, sides[0].evicted) == (sides[1].found, sides[1].evicted)
    print(json.dumps({"found": sides[1].found, "evicted": sides[1].evicted}))


main()

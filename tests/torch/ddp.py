"""torch.distributed and DDP on virtual GPUs, as a user would start them.

``torchrun --nproc-per-node N tests/torch/ddp.py``, or ``python tests/torch/ddp.py N`` for
mp.spawn. Rank 0 prints what it found as JSON.

No kernel runs on a virtual GPU, so tensors whose values count are made on the CPU.
"""

import json
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def on_gpu(values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype).cuda()


def collectives(rank, ranks):
    """Each operation of torch.distributed; the sums are those of rank + 1."""
    found = {}
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8):
        tensor = on_gpu([rank + 1, 2], dtype)
        dist.all_reduce(tensor)
        found[f"all_reduce {dtype}"] = tensor.cpu().tolist()
    tensor = on_gpu([rank + 1.0])
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    found["average"] = tensor.item()
    tensor = on_gpu([rank])
    dist.broadcast(tensor, src=ranks - 1)
    found["broadcast"] = tensor.item()
    gathered = [on_gpu([0]) for _ in range(ranks)]
    dist.all_gather(gathered, on_gpu([rank]))
    found["all_gather"] = [part.item() for part in gathered]
    scattered = on_gpu([0])
    dist.reduce_scatter_tensor(scattered, on_gpu(list(range(ranks))))
    found["reduce_scatter"] = scattered.item()
    received = on_gpu([0] * ranks)
    dist.all_to_all_single(received, on_gpu([10 * rank + i for i in range(ranks)]))
    found["all_to_all"] = received.cpu().tolist()
    left, right = (rank - 1) % ranks, (rank + 1) % ranks
    message = on_gpu([0])
    for work in dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, on_gpu([rank]), right), dist.P2POp(dist.irecv, message, left)]
    ):
        work.wait()
    found["from_left"] = message.item()
    objects = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank})
    found["objects"] = [part["rank"] for part in objects]
    dist.barrier()
    return found


def groups(rank, ranks):
    """A subgroup of NCCL's, and one of gloo's, which stays real."""
    half = dist.new_group([r for r in range(ranks) if r < ranks // 2])
    on_cpu = dist.new_group(backend="gloo")
    tensor = on_gpu([rank + 1])
    if rank < ranks // 2:
        dist.all_reduce(tensor, group=half)
    cpu = torch.tensor([rank + 1])
    dist.all_reduce(cpu, group=on_cpu)
    return {"half": tensor.item(), "gloo": cpu.item()}


def captured(_rank, _ranks):
    """An all-reduce in a CUDA graph, replayed twice."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        tensor = on_gpu([1.0])
        dist.all_reduce(tensor)
        tensor.copy_(torch.tensor([1.0]))
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            dist.all_reduce(tensor)
        for _ in range(2):
            graph.replay()
        torch.cuda.synchronize()
    return {"replayed": tensor.item()}


def late(rank, ranks):
    """A rank that sleeps a minute holds all others up for a minute of virtual time."""
    tensor = on_gpu([1.0])
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    dist.barrier()
    begin = time.monotonic()
    if rank == ranks - 1:
        time.sleep(60)
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    return {"waited_s": round(time.monotonic() - begin, 2)}


def ddp(rank, ranks):
    """Averaged gradients of a bias: rank r's are r + 1, put there by a hook, for no kernel runs."""
    model = torch.nn.Linear(2, 2)
    wrapped = DistributedDataParallel(model.cuda(), device_ids=[rank])
    for parameter in model.parameters():
        gradient = torch.full_like(parameter, float(rank + 1), device="cpu").cuda()
        parameter.register_hook(lambda _, value=gradient: value)
    loss = wrapped(on_gpu([[1.0, 2.0]])).sum()
    loss.backward()
    torch.cuda.synchronize()
    return {
        "gradients": [p.grad.cpu().flatten().tolist() for p in model.parameters()],
        "parameters_equal": parameters_are_equal(model, ranks),
    }


def parameters_are_equal(model, ranks):
    """Rank 0's parameters are what all began with."""
    own = [p.detach().cpu().tolist() for p in model.parameters()]
    objects = [None] * ranks
    dist.all_gather_object(objects, own)
    return all(other == objects[0] for other in objects)


def run(rank, ranks):
    torch.manual_seed(rank)
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks, timeout=timedelta(minutes=10))
    found = {}
    for part in (collectives, groups, captured, late, ddp):
        found |= part(rank, ranks)
    if rank == 0:
        print(json.dumps(found), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main():
    if "RANK" in os.environ:
        run(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
        return
    ranks = int(sys.argv[1])
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[2]}
    mp.spawn(run, args=(ranks,), nprocs=ranks)


if __name__ == "__main__":
    main()

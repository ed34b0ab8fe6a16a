#include "cuda_shim/time/work.hpp"

#include "cuda_shim/time/event.hpp"
#include "cuda_shim/time/graph.hpp"

namespace warpserve::gpu {
namespace {

struct Scheduler {
  const Completion& ready;
  VirtualTime now;
  Afterwards& afterwards;

  Completion operator()(const EmptyWork&) const { return ready; }
  Completion operator()(const MemoryWork&) const { return ready; }
  Completion operator()(const KernelWork& work) const { return ready.after(work.duration); }
  Completion operator()(const FillWork& work) const { return ready.after(work.duration); }

  Completion operator()(const CopyWork& work) const {
    work.engine->forget_before(now);
    if (const auto instant = ready.instant()) {
      return Completion::at(work.engine->reserve(*instant, work.duration));
    }
    const CompletionSource end;
    ready.when_known([engine = work.engine, duration = work.duration, end](VirtualTime instant) {
      end.resolve(engine->reserve(instant, duration));
    });
    return end.completion();
  }

  Completion operator()(const HostWork& work) const {
    const CompletionSource end;
    afterwards.add([from = ready, work, end] {
      from.when_known(
          [work, end](VirtualTime instant) { work.runner->run_at(instant, work.function, end); });
    });
    return end.completion();
  }

  Completion operator()(const PendingWork& work) const {
    const CompletionSource end;
    afterwards.add([from = ready, start = work.start, end] { start(from, end); });
    return end.completion();
  }

  Completion operator()(const EventRecordWork& work) const {
    work.event->set(ready);
    return ready;
  }

  Completion operator()(const EventWaitWork& work) const {
    return latest(ready, work.event->completion());
  }

  Completion operator()(const ChildGraphWork& work) const {
    return schedule_graph(*work.graph, *work.graph->topological_order(), ready, now, afterwards);
  }
};

}  // namespace

Completion schedule(const Work& work, const Effect& effect, const Completion& ready,
                    VirtualTime now, Afterwards& afterwards) {
  if (effect) {
    afterwards.add([ready, effect] { ready.when_known([effect](VirtualTime) { effect(); }); });
  }
  return std::visit(Scheduler{ready, now, afterwards}, work);
}

}  // namespace warpserve::gpu

"""The engine on nodes, begun on a machine on which jobs run already."""

from __future__ import annotations

from presage.simulator._cluster import take
from presage.simulator._compiling import compiled
from presage.simulator._placed import ARRIVED, EASY, PLAN, RUN, RUNNING, START, Simulation, want_of
from presage.simulator._shadow import begin
from presage.simulator._structures import push_end


@compiled
def resume(sim: Simulation, running: int) -> None:
    """Let the first jobs run, since their starts and on the nodes that are written; all starts are above 0."""
    jobs, places, counts = sim.jobs, sim.places, sim.counts
    for job in range(running):
        want = want_of(sim.demands, job)
        for member in range(places.first[job], places.first[job + 1]):
            take(sim.machine, sim.free, places.node[member], want, places.gpus[member])
        push_end(sim.ends[0], sim.ends[1], counts[RUNNING], jobs[START, job] + jobs[RUN, job], job)
        counts[RUNNING] += 1
        if sim.backfilling == EASY:
            planned = jobs[START, job] + jobs[PLAN, job]
            begin(sim.shadow, sim.machine, sim.free, sim.demands, places, job, planned, False)
    counts[ARRIVED] = running

#!/usr/bin/env python3
"""Short tasks on an empty fleet of Slurm, beside the same tasks as an array of Slurm: with-slurm.sh bench-slurm.py BATON.

Both get the same four nodes of four cores. Each task makes a file of its own and sleeps; the files are counted at the
end. The time of Baton counts from its submission, with no worker there: its jobs wait in the same queue. HyperQueue, if
its Python package is installed, runs the same with workers of its own process, without Slurm: its allocator needs the
command `hq`, which the package does not have.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NODES = 4
CORES = 4
# A measurement that takes longer has failed.
LIMIT_SECONDS = 3600


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("baton", type=Path)
    parser.add_argument("--count", type=int, default=10_000, help="tasks")
    parser.add_argument("--slurm-count", type=int, help="tasks of the array, if it is to have fewer")
    parser.add_argument("--seconds", type=float, default=0.05, help="how long a task sleeps")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    slurm_count = options.slurm_count or options.count
    results = []
    with tempfile.TemporaryDirectory(prefix="baton-bench-") as name:
        directory = Path(name)
        ways = [("Slurm array", slurm_count, slurm), ("Baton fleet", options.count, baton)]
        if importlib.util.find_spec("hyperqueue"):
            ways.append(("HyperQueue, no Slurm", options.count, hyperqueue))
        for way, count, run in ways:
            files = directory / run.__name__
            files.mkdir()
            seconds = run(options, files, count)
            made = len(os.listdir(files))
            if made != count:
                print(f"{way}: {made} of {count} tasks have run", file=sys.stderr)
                return 1
            results.append({"way": way, "tasks": count, "seconds": round(seconds, 1), "rate": round(count / seconds, 1)})
            print(f"{way}: {count} tasks in {seconds:.1f} s", file=sys.stderr)
    slowest = results[0]["rate"]
    for it in results:
        it["ratio"] = round(it["rate"] / slowest, 1)
    report(results, options)
    return 0


def report(results: list, options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps({"sleep": options.seconds, "slots": NODES * CORES, "results": results}))
        return
    print(f"tasks of {options.seconds * 1000:.0f} ms on {NODES * CORES} slots, {os.cpu_count()} CPUs")
    print(f"{'':24}{'tasks':>8}{'seconds':>10}{'tasks/s':>10}{'ratio':>8}")
    for it in results:
        print(f"{it['way']:24}{it['tasks']:>8}{it['seconds']:>10}{it['rate']:>10}{it['ratio']:>7}x")


def wait(what: str, done) -> None:
    begun = time.monotonic()
    while not done():
        if time.monotonic() - begun > LIMIT_SECONDS:
            raise SystemExit(f"waited in vain: {what}")
        time.sleep(0.25)


def output(*command: str, **options) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def slurm(options: argparse.Namespace, files: Path, count: int) -> float:
    """An array of one job for each task."""
    script = f"#!/bin/sh\n: >{files}/$SLURM_ARRAY_TASK_ID\nexec sleep {options.seconds}\n"
    begun = time.monotonic()
    limits = ["--cpus-per-task=1", "--mem=16M", "--output=/dev/null"]
    output("sbatch", f"--array=1-{count}", *limits, input=script)
    wait("the array is done", lambda: not output("squeue", "--noheader"))
    return time.monotonic() - begun


def baton(options: argparse.Namespace, files: Path, count: int) -> float:
    """A fleet with a job for each node, from none."""
    binary = str(options.baton.resolve())
    data = tempfile.mkdtemp(dir=files.parent)
    command = [binary, "scheduler", "--json", "--data", data]
    command += ["--listen", "127.0.0.1:0", "--worker-listen", "127.0.0.1:0"]
    scheduler = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        ready = json.loads(scheduler.stdout.readline())
        env = os.environ | {"BATON_URL": ready["url"]}
        fleet = f"--backend slurm --cpus {CORES} --memory 1GiB --max {NODES} --backlog {NODES}"
        output(binary, "fleet", "add", "bench", *fleet.split(), env=env)
        task = f": >{files}/$BATON_ARRAY_INDEX; exec sleep {options.seconds}"
        begun = time.monotonic()
        submit = ["submit", "--array", f"1-{count}", "--cpu", "1", "--wait", "--", task]
        output(binary, *submit, env=env)
        seconds = time.monotonic() - begun
        output(binary, "fleet", "rm", "bench", env=env)
        wait("the queue is empty", lambda: not output("squeue", "--noheader"))
        return seconds
    finally:
        scheduler.kill()
        scheduler.wait()


def hyperqueue(options: argparse.Namespace, files: Path, count: int) -> float:
    """A server and its workers in this process."""
    from hyperqueue import Job, LocalCluster
    from hyperqueue.cluster import WorkerConfig

    with LocalCluster() as cluster:
        begun = time.monotonic()
        for _ in range(NODES):
            cluster.start_worker(WorkerConfig(cores=CORES))
        client = cluster.client()
        job = Job()
        for index in range(count):
            job.program(["/bin/sh", "-c", f": >{files}/{index}; exec sleep {options.seconds}"], stdout=None, stderr=None)
        client.wait_for_jobs([client.submit(job)])
        return time.monotonic() - begun


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Holds the rounds of the configurations against SimGrid, which shares the links.

    python3 studies/reality/simgrid_rounds.py                 every synchronous configuration, seed 1
    python3 studies/reality/simgrid_rounds.py --seed 2

Debian's package `python3-simgrid` (3.32) suffices. FEDRECSIM names the program [target/release/fedrecsim].

SimGrid is told who is invited in each round, the bytes of every frame, how long each training takes, and how fast each
link is when nobody else uses the server's. It finds out when the transfers arrive and when the rounds end. Every device
is an actor that downloads, trains and uploads, and the next round begins with the last arrival. The fluid model CM02
has all its factors off. A transfer takes its latency after its last byte, as the model here does, and holds one of the
server's connections until its last byte.

Left out: rounds that end before all have arrived, and transfers that are cut off.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
PROGRAM = os.environ.get("FEDRECSIM", str(HERE.parent.parent / "target" / "release" / "fedrecsim"))
OPTIONS = {
    "network/model": "CM02",
    "network/TCP-gamma": "0",
    "network/latency-factor": "1",
    "network/bandwidth-factor": "1",
    "network/weight-S": "0",
    "network/crosstraffic": "0",
    "surf/precision": "1e-12",
    "maxmin/precision": "1e-9",
}


def simulated(seed, lines, folder):
    """Runs a configuration in the simulator, and returns the ends of its rounds and its events."""
    words = [str(HERE / "base.toml"), "--seed", str(seed), *(word for line in lines for word in ("--set", line))]
    file = folder / "events.jsonl"
    for command, out in (("run", folder), ("events", file)):
        subprocess.run([PROGRAM, command, *words, "--out", str(out), "--overwrite"], check=True, capture_output=True)
    with open(folder / "rounds.csv", newline="") as rows:
        ends = [float(row["virtual_time_s"]) for row in csv.DictReader(rows)]
    return ends, [json.loads(line) for line in file.read_text().splitlines()]


def plan(seed, lines, folder):
    """Returns what SimGrid is told of a configuration, and the ends of the rounds that it has to find."""
    ends, events = simulated(seed, lines, folder)
    network = tomllib.loads((folder / "scenario.toml").read_text())["network"]
    server = network.get("server", {})
    assert not network.get("rtt_log_sigma"), "the latencies of users differ"
    latency = network["rtt_ms"] / 2e3
    # Without the server's limits a transfer has its own link for itself.
    alone = simulated(seed, [*lines, "network.server={}"], folder)[1] if server else events
    key = lambda event: (event["round"], event["user"])
    own = {}
    for event in alone:
        if event["event"] in ("download-arrived", "upload-arrived"):
            own[event["event"][0], *key(event)] = event["bytes"] / (event["took_ns"] / 1e9 - latency)
    rounds = defaultdict(dict)
    for event in events:
        if event["event"] == "download-started":
            rounds[event["round"]][event["user"]] = {"down": event["bytes"], "down_rate": own["d", *key(event)]}
        elif event["event"] == "training-ended":
            rounds[event["round"]][event["user"]]["training_s"] = event["took_ns"] / 1e9
        elif event["event"] == "upload-started":
            rounds[event["round"]][event["user"]] |= {"up": event["bytes"], "up_rate": own["u", *key(event)]}
    told = {
        "latency_s": latency,
        "connections": server.get("connections"),
        "down_rate": server.get("downlink_mbit_per_s"),
        "up_rate": server.get("uplink_mbit_per_s"),
        "rounds": [list(rounds[number].values()) for number in sorted(rounds)],
    }
    return told, ends


def replay(told):
    """Prints when each round ends in SimGrid, in seconds."""
    import simgrid

    engine = simgrid.Engine([sys.argv[0], *(f"--cfg={key}:{value}" for key, value in OPTIONS.items())])
    zone = simgrid.NetZone.create_full_zone("zone")
    server = zone.create_host("server", 1e9)
    limit = lambda name, rate: zone.create_link(name, rate * 1e6 / 8 if rate else 1e15).set_latency(0).seal()
    ports = {"down": limit("port-down", told["down_rate"]), "up": limit("port-up", told["up_rate"])}
    free = simgrid.Semaphore(told["connections"] or 1_000_000)
    members = []
    for number, cohort in enumerate(told["rounds"]):
        for place, member in enumerate(cohort):
            device = zone.create_host(f"device-{number}-{place}", 1e9)
            for way, ends in (("down", (server, device)), ("up", (device, server))):
                link = zone.create_link(f"{way}-{number}-{place}", member[f"{way}_rate"]).set_latency(0).seal()
                links = [simgrid.LinkInRoute(link), simgrid.LinkInRoute(ports[way])]
                zone.add_route(ends[0].netpoint, ends[1].netpoint, None, None, links, False)
            members.append((number, device, member))
    zone.seal()

    def transfer(way, device, count):
        free.acquire()
        ends = (server, device) if way == "down" else (device, server)
        simgrid.Comm.sendto(*ends, count)
        free.release()
        simgrid.this_actor.sleep_for(told["latency_s"])

    def take_part(device, member, left):
        transfer("down", device, member["down"])
        simgrid.this_actor.sleep_for(member["training_s"])
        transfer("up", device, member["up"])
        left.release()

    def serve():
        for number, cohort in enumerate(told["rounds"]):
            arrived = simgrid.Semaphore(0)
            for _, device, member in (one for one in members if one[0] == number):
                simgrid.Actor.create(f"{device.name}-takes-part", device, take_part, device, member, arrived)
            for _ in cohort:
                arrived.acquire()
            print(f"end {simgrid.Engine.clock:.12f}")

    simgrid.Actor.create("serve", server, serve)
    engine.run()


def main():
    if sys.argv[1:2] == ["replay"]:
        return replay(json.load(sys.stdin))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    file = tomllib.loads((HERE / "configurations.toml").read_text())
    head = ["configuration", "rounds", "last end, simulated", "SimGrid", "largest difference of a round"]
    print("|", " | ".join(head), "|\n" + "|---" * len(head) + "|")
    for configuration in file["configuration"]:
        lines = file["settings"].get(configuration.get("use"), []) + configuration.get("set", [])
        if "kill" in configuration or any(line.startswith("training.mode") for line in lines):
            continue
        with tempfile.TemporaryDirectory() as folder:
            told, ends = plan(arguments.seed, lines, Path(folder))
        # SimGrid has one engine in a process.
        command = [sys.executable, __file__, "replay"]
        printed = subprocess.run(command, input=json.dumps(told), check=True, capture_output=True, text=True).stdout
        found = [float(line.split()[1]) for line in printed.splitlines() if line.startswith("end ")]
        lengths = lambda ends: [end - begin for begin, end in zip([0, *ends], ends)]
        worst = max(abs(one - other) for one, other in zip(lengths(ends), lengths(found), strict=True))
        cells = [configuration["name"], len(ends), f"{ends[-1]:.6f} s", f"{found[-1]:.6f} s", f"{worst * 1e9:.0f} ns"]
        print("|", " | ".join(map(str, cells)), "|", flush=True)


main()

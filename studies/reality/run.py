#!/usr/bin/env python3
"""Runs each configuration in simulation and for real on this machine, and writes how far the two are apart.

    python3 studies/reality/run.py OUT                      all configurations, five seeds; 45 minutes on two idle cores
    python3 studies/reality/run.py OUT --seeds 1            one seed
    python3 studies/reality/run.py OUT --only "small frames" --only ...

OUT has a folder for each run, rounds.csv and README.md with the tables. What is there already is not run again.
FEDRECSIM names the program [target/release/fedrecsim].
"""

import argparse
import csv
import json
import os
import re
import socket
import statistics
import subprocess
import threading
import time
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
PROGRAM = os.environ.get("FEDRECSIM", str(HERE.parent.parent / "target" / "release" / "fedrecsim"))
BASE = HERE / "base.toml"
# Kinds of messages that carry a frame, and the numbers before it: see docs/reference/protocol.md.
INVITE, REQUEST, REPLY, UPLOAD = 5, 7, 8, 9
NUMBERS = {INVITE: 4, REQUEST: 8, REPLY: 2, UPLOAD: 7}
FIXED_BYTES = {INVITE: 1, UPLOAD: 8}
GOALS = "median of errors <= 2 %, 95th percentile <= 5 %, tau >= 0.95, frames and digests equal"


class Counted:
    """Counts what goes one way over a connection: all bytes, and those of frames."""

    def __init__(self):
        self.bytes = self.frames = 0
        self.buffer = b""

    def take(self, data):
        self.bytes += len(data)
        self.buffer += data
        while len(self.buffer) >= 4:
            length = int.from_bytes(self.buffer[:4], "little")
            if len(self.buffer) < 4 + length:
                return
            self.frames += frame_bytes(self.buffer[4 : 4 + length])
            self.buffer = self.buffer[4 + length :]


def frame_bytes(message):
    """Returns the bytes of the frame in a message."""
    kind, at = message[0], 1
    if kind not in NUMBERS:
        return 0
    for _ in range(NUMBERS[kind]):
        while message[at] >= 0x80:
            at += 1
        at += 1
    return len(message) - at - FIXED_BYTES.get(kind, 0)


class Way:
    """A way to the server that counts bytes. All connections of one process go over it."""

    def __init__(self, server):
        self.server, self.up, self.down = server, Counted(), Counted()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.open = []
        threading.Thread(target=self.accept, daemon=True).start()

    def address(self):
        return "127.0.0.1:%d" % self.listener.getsockname()[1]

    def accept(self):
        while True:
            device, _ = self.listener.accept()
            try:
                server = socket.create_connection(self.server)
            except OSError:
                device.close()
                continue
            self.open = [device, server]
            # A connection that was cut may have left half a message.
            self.up.buffer = self.down.buffer = b""
            for source, to, counted in [(device, server, self.up), (server, device, self.down)]:
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.carry, args=(source, to, counted), daemon=True).start()

    def carry(self, source, to, counted):
        try:
            while data := source.recv(1 << 16):
                to.sendall(data)
                counted.take(data)
        except OSError:
            pass
        self.cut([source, to])

    def cut(self, connection=None):
        for end in connection or self.open:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def command(*words):
    return [PROGRAM, *map(str, words)]


def settings(lines):
    return [word for line in lines for word in ("--set", line)]


def run(words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def calibrated(configuration, seed, folder):
    """Returns what `calibrate` says of this machine as a device of the configuration, as lines for `--set`."""
    file = folder / "devices.toml"
    if not file.exists():
        lines = settings(configuration["set"])
        words = command("calibrate", BASE, "--seed", seed, *lines, "--length", "10s")
        told = subprocess.run(words, check=True, capture_output=True, text=True)
        file.write_text(told.stdout)
    lines = [line for line in file.read_text().splitlines() if " = " in line]
    return ["devices.%s" % line.replace(" = ", "=", 1) for line in lines]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def run_for_real(configuration, seed, lines, folder):
    """Serves a configuration to its processes, and returns the bytes on their connections."""
    port, parts = free_port(), configuration["users"]
    pace = "none" if configuration.get("unpaced") else "scenario"
    words = command("serve", BASE, "--seed", seed, *settings(lines), "--listen", f"127.0.0.1:{port}")
    words += ["--pace", pace, "--out", folder, "--overwrite", "--threads", "1"]
    with open(folder.parent / "serve.log", "w") as log:
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        ways, devices = [], []
        for said in server.stderr:
            log.write(said)
            if "waits for the users" in said and not ways:
                ways = [Way(("127.0.0.1", port)) for _ in parts]
                for users, way in zip(parts, ways):
                    join = command("join", way.address(), "--users", users, "--threads", 2)
                    devices.append(subprocess.Popen(join, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            if "all users are there" in said and (kill := configuration.get("kill")) and kill.get("at_s"):
                threading.Timer(kill["at_s"], ways[kill["process"]].cut).start()
                configuration = {**configuration, "kill": {}}
        codes = [process.wait() for process in [server, *devices]]
    if any(codes):
        raise SystemExit(f"{configuration['name']}: exit codes {codes}; see {folder.parent / 'serve.log'}")
    total = lambda way, what: sum(getattr(getattr(one, way), what) for one in ways)
    return {f"{way}_{what}": total(way, what) for way in ("up", "down") for what in ("bytes", "frames")}


def rounds_of(folder):
    with open(folder / "rounds.csv", newline="") as file:
        return list(csv.DictReader(file))


def compare(configuration, seed, folder):
    """Runs a configuration both ways, and returns what is compared. What is in the folder stays."""
    result = folder / "result.json"
    if result.exists():
        return json.loads(result.read_text())
    folder.mkdir(parents=True, exist_ok=True)
    lines = list(configuration["set"])
    if configuration.get("unpaced"):
        lines += calibrated(configuration, seed, folder)
    words = command("run", BASE, "--seed", seed, *settings(lines), "--out", folder / "simulated")
    run([*words, "--overwrite", "--threads", "1"])
    load = os.getloadavg()[0]
    on_socket = run_for_real(configuration, seed, lines, folder / "real")
    load = max(load, os.getloadavg()[0])
    simulated, real = rounds_of(folder / "simulated"), rounds_of(folder / "real")
    said = {way: json.loads((folder / way / "run.json").read_text()) for way in ("simulated", "real")}
    seconds = lambda rows: [float(row["duration_s"]) for row in rows]
    found = {
        "name": configuration["name"],
        "seed": seed,
        "load": load,
        "simulated_s": seconds(simulated),
        "real_s": seconds(real),
        "same_state": digest(said["simulated"]) == digest(said["real"]),
        "delivered": {way: delivered(rows) for way, rows in (("simulated", simulated), ("real", real))},
        "on_socket": on_socket,
    }
    result.write_text(json.dumps(found, indent=1) + "\n")
    return found


def digest(run_json):
    text = json.dumps(run_json)
    found = re.search(r'"state_digest": "([0-9a-f]+)"', text)
    return found and found.group(1)


def delivered(rows):
    return {way: sum(int(row[f"{way}_delivered_bytes"]) for row in rows) for way in ("up", "down")}


def tau(one, other):
    """Returns Kendall's tau of two lists of figures."""
    pairs = [(a, b) for a in range(len(one)) for b in range(a)]
    sign = lambda values, a, b: (values[a] > values[b]) - (values[a] < values[b])
    agree = [sign(one, a, b) * sign(other, a, b) for a, b in pairs]
    return sum(agree) / len(agree) if agree else float("nan")


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


HEAD = """# The simulation against a real run on this machine

Goals: %s.

A real run takes its links from the scenario (`serve --shape scenario`), so that errors are those of everything else:
computation, sockets, scheduling. The load is the host's, of one minute.

| configuration | runs | round, simulated | real | median error | p95 | frames on sockets | state | load |
|---|---|---|---|---|---|---|---|---|
""" % GOALS


def word(found):
    """Returns whether all of `found` are true, in a word."""
    return {(True,): "equal", (False,): "other"}.get(tuple(found), "some equal")


def errors_of(results):
    pairs = [pair for result in results for pair in zip(result["simulated_s"], result["real_s"])]
    return pairs, [abs(real / simulated - 1) for simulated, real in pairs]


def page(results):
    """Returns the tables in Markdown."""
    text, order = HEAD, []
    for name in dict.fromkeys(result["name"] for result in results):
        own = [result for result in results if result["name"] == name]
        pairs, errors = errors_of(own)
        order.append([statistics.mean(side) for side in zip(*pairs)])
        frames = {
            result["on_socket"][f"{way}_frames"] == result["delivered"]["simulated"][way]
            for result in own
            for way in ("up", "down")
        }
        cells = [name, str(len(own)), *("%.2f s" % mean for mean in order[-1])]
        cells += ["%.1f %%" % (100 * error) for error in (statistics.median(errors), quantile(errors, 0.95))]
        cells += [word(frames), word({result["same_state"] for result in own})]
        cells += ["%.1f" % max(result["load"] for result in own)]
        text += "| %s |\n" % " | ".join(cells)
    errors = errors_of(results)[1]
    both = ("up", "down")
    whole, frames = (
        sum(result["on_socket"][f"{way}_{what}"] for result in results for way in both) for what in ("bytes", "frames")
    )
    return text + (
        f"\nAll rounds: median error {100 * statistics.median(errors):.1f} %, "
        f"95th percentile {100 * quantile(errors, 0.95):.1f} %. "
        f"Order of the configurations: Kendall's tau {tau(*zip(*order)):.2f}.\n"
        f"Of the bytes on the sockets, {100 * (1 - frames / whole):.1f} % are not frames: heads, the greeting with the "
        "scenario, and the questions of evaluation.\n"
    )


def parts_of(configuration):
    """Returns the users of each process, if they are spread evenly over `processes`."""
    count, everybody = configuration.get("processes", 1), configuration.get("everybody", 40)
    ends = [number * everybody // count for number in range(count + 1)]
    return [f"{first}..{end - 1}" for first, end in zip(ends, ends[1:])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", action="append")
    arguments = parser.parse_args()
    file = tomllib.loads((HERE / "configurations.toml").read_text())
    configurations = file["configuration"]
    results = []
    for seed in range(1, arguments.seeds + 1):
        for number, configuration in enumerate(configurations, 1):
            if arguments.only and configuration["name"] not in arguments.only:
                continue
            began = time.monotonic()
            folder = arguments.out / f"{number:02}-{seed}"
            lines = file["settings"].get(configuration.get("use"), []) + configuration.get("set", [])
            configuration = {"users": parts_of(configuration), **configuration, "set": lines}
            results.append(compare(configuration, seed, folder))
            print(f"{configuration['name']}, seed {seed}: {time.monotonic() - began:.0f} s", flush=True)
            (arguments.out / "README.md").write_text(page(results))
    print(page(results))


if __name__ == "__main__":
    main()

"""Runs one rank of a cluster: mlx_lm.server of the pinned mlx-lm.

    python -c THIS_FILE server ID [flags of mlx_lm.server]
    python -c THIS_FILE probe FOLDER

probe says how a model can be split and how large its parts are. What happens is printed as a line
"@headroom " and a JSON object for each event; other output is mlx-lm's. The end of
stdin ends the process: stdin ends when headroom ends, however it does.

It changes four things of mlx_lm.server that a supervised cluster needs to be different:

- The process ends if the thread that generates ends. mlx-lm keeps the process and answers nothing.
- A request cannot load another model: all ranks would download it.
- A client that disconnects cannot end an answer that is not batched, as one with a seed. mlx-lm
  raises an exception in rank 0 alone. The other ranks go on, and all requests hang from then on.
- A model in one file can be pipelined. mlx-lm reads the names of the weights from an index, which
  is only there if there are several files.
"""

import json
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

BEAT_SECONDS = 2


def emit(event, **fields):
    try:
        os.write(1, ("@headroom " + json.dumps({"event": event, **fields}) + "\n").encode())
    except OSError:  # headroom has ended
        os._exit(1)


def watch_stdin():
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


def fail(error):
    import traceback

    traceback.print_exc()
    sys.stderr.flush()
    emit("failed", error=f"{type(error).__name__}: {error}"[:2000])
    os._exit(1)


class Progress:
    """Progress tells when the thread that generates has last done something."""

    def __init__(self):
        self.last = time.monotonic()

    def step(self):
        self.last = time.monotonic()

    def report(self):
        while True:
            time.sleep(BEAT_SECONDS)
            emit("beat", idle=round(time.monotonic() - self.last, 1))


class Unstoppable:
    """Unstoppable is the queue of an answer that ends only by itself."""

    def __init__(self, queue, progress):
        self.queue, self.progress = queue, progress

    def put(self, item):
        self.progress.step()
        if hasattr(item, "stop"):
            item.stop = lambda: None
        self.queue.put(item)


def indexed(model):
    """indexed returns a folder with the model's files and an index of its weights."""
    model = Path(model)
    if (model / "model.safetensors.index.json").exists():
        return model
    weights = {}
    for path in sorted(model.glob("model*.safetensors")):
        with open(path, "rb") as f:
            header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        weights.update((name, path.name) for name in header if name != "__metadata__")
    folder = Path(tempfile.gettempdir(), "model")  # of this rank alone
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for path in model.iterdir():
        (folder / path.name).symlink_to(path.resolve())
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))
    return folder


def serve(model_id, args):
    import mlx.core as mx
    from mlx_lm import server

    progress = Progress()
    if "--pipeline" in args:
        at = args.index("--model") + 1
        args[at] = str(indexed(args[at]))

    class Provider(server.ModelProvider):
        def __init__(self, cli_args):
            super().__init__(cli_args)
            self._model_map[model_id] = cli_args.model
            self._adapter_map[model_id] = None

        def load(self, model_path, adapter_path=None, draft_model_path=None):
            if model_path not in ("default_model", model_id) or adapter_path is not None:
                raise ValueError(f"this cluster runs only {model_id}")
            return super().load("default_model", None, "default_model")

        def load_default(self):
            super().load_default()
            emit("loaded", memory=mx.get_active_memory())

    class Generator(server.ResponseGenerator):
        def _generate(self):
            try:
                super()._generate()
            except BaseException as e:
                fail(e)

        def _share_object(self, obj):
            progress.step()
            return super()._share_object(obj)

        def _serve_single(self, request, stream):
            queue, *rest = request
            super()._serve_single((Unstoppable(queue, progress), *rest), stream)

    server.ModelProvider, server.ResponseGenerator = Provider, Generator
    group = mx.distributed.init()
    emit("joined", rank=group.rank(), size=group.size(), pid=os.getpid())
    threading.Thread(target=progress.report, daemon=True).start()
    sys.argv = ["mlx_lm.server", *args]
    server.main()


def probe(folder):
    import re

    from mlx.utils import tree_flatten
    from mlx_lm.utils import load_model

    model, config = load_model(Path(folder), lazy=True, strict=False)
    layers, other = {}, 0
    for name, weight in tree_flatten(model.parameters()):
        layer = re.search(r"(?:^|\.)layers\.(\d+)\.", name)
        if layer is None:
            other += weight.nbytes
        else:
            n = int(layer.group(1))
            layers[n] = layers.get(n, 0) + weight.nbytes
    # The same conditions as those of mlx_lm.utils.sharded_load.
    emit(
        "probed",
        tensor=hasattr(model, "shard"),
        pipeline=hasattr(model, "model") and hasattr(model.model, "pipeline"),
        layers=[layers[n] for n in sorted(layers)],
        other=other,
        context={**config, **config.get("text_config", {})}.get("max_position_embeddings", 0),
    )


def main():
    threading.Thread(target=watch_stdin, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        if sys.argv[1] == "probe":
            probe(sys.argv[2])
        else:
            serve(sys.argv[2], sys.argv[3:])
    except BaseException as e:
        fail(e)


if __name__ == "__main__":
    main()

"""Runs mlx_lm.lora for `headroom train`, which starts it as

    python -I -c TEXT_OF_THIS_FILE DONE [flags of mlx_lm.lora]

DONE is the number of iterations that earlier runs have done: the numbers of iterations and
checkpoints go on from there. What happens is printed as a line "@headroom " and a JSON object for
each event. All other output is mlx-lm's.

SIGINT, SIGTERM and the end of stdin pause the training: after the iteration that is running, a
checkpoint is saved and the process ends with PAUSED. stdin ends when headroom ends, however it
does. It uses what is the same in every run of the pinned mlx-lm: lora.train, lora.evaluate, the
callback of the losses, and the methods of trainer.TrainUI.
"""

import json
import math
import os
import signal
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

PAUSED = 75  # EX_TEMPFAIL of sysexits.h: run it again to go on
OPTIMIZER = "optimizer.safetensors"  # in the adapter's folder

paused = threading.Event()


def emit(event, **fields):
    try:
        print("@headroom " + json.dumps({"event": event, **fields}), flush=True)
    except OSError:  # headroom has ended; the checkpoint is still to be saved
        sys.stdout = open(os.devnull, "w")


def request_pause(*_):
    paused.set()


def watch_stdin():
    while os.read(0, 4096):
        pass
    paused.set()


def write(path, arrays, metadata=None):
    """write writes a file in one step."""
    import mlx.core as mx

    unfinished = path.with_name("." + path.name + ".part.safetensors")
    mx.save_safetensors(str(unfinished), arrays, metadata)
    os.replace(unfinished, path)


class Run:
    """Run is the training that runs. TrainUI and the callback report to it."""

    def __init__(self, done_before):
        self.before = done_before
        self.now = 0  # iterations of this run
        self.model = None
        self.optimizer = None
        self.args = None

    def save(self):
        """save writes a checkpoint, and then the same as the adapter, each in one step."""
        from mlx.utils import tree_flatten

        name = f"{self.before + self.now:07d}_adapters.safetensors"
        weights = dict(tree_flatten(self.model.trainable_parameters()))
        for path in (self.folder() / name, Path(self.args.adapter_file)):
            write(path, weights)
        emit("saved", iteration=self.before + self.now, file=name)

    def folder(self):
        return Path(self.args.adapter_file).parent

    def save_optimizer(self):
        """save_optimizer writes the optimizer's state, for a run that goes on here."""
        from mlx.utils import tree_flatten

        at = {"iteration": str(self.before + self.now)}
        write(self.folder() / OPTIMIZER, dict(tree_flatten(self.optimizer.state)), at)

    def restore_optimizer(self):
        """restore_optimizer gives the optimizer the state of that iteration. If there is none, as
        after a crash, it only counts on: the schedule of the learning rate depends on it."""
        import mlx.core as mx
        from mlx.utils import tree_unflatten

        self.optimizer.state["step"] = mx.array(self.before, mx.uint64)
        try:
            state, at = mx.load(str(self.folder() / OPTIMIZER), return_metadata=True)
        except (OSError, RuntimeError):
            return
        if at.get("iteration") == str(self.before) and "step" in state:
            self.optimizer.state = tree_unflatten(list(state.items()))

    def pause_if_asked(self):
        if not paused.is_set():
            return
        if self.now > 0:
            self.save()
            self.save_optimizer()
        emit("paused", iteration=self.before + self.now)
        sys.exit(PAUSED)


def main():
    run = Run(int(sys.argv[1]))
    sys.argv = ["mlx_lm.lora"] + sys.argv[2:]
    signal.signal(signal.SIGINT, request_pause)
    signal.signal(signal.SIGTERM, request_pause)
    threading.Thread(target=watch_stdin, daemon=True).start()

    from mlx.utils import tree_flatten
    from mlx_lm import lora
    from mlx_lm.tuner import trainer
    from mlx_lm.tuner.callbacks import TrainingCallback

    class Callback(TrainingCallback):
        reported = 0

        def on_train_loss_report(self, info):
            if not math.isfinite(info["train_loss"]):
                raise FloatingPointError(
                    "the loss is no number any more; a smaller --learning-rate may help"
                )
            # mlx-lm divides the steps between two reports by the time since the last one. The
            # last report of a run may have fewer.
            steps = info["iteration"] - self.reported
            speed = info["iterations_per_second"] * steps / run.args.steps_per_report
            self.reported = info["iteration"]
            at = {"iteration": run.before + info["iteration"], "iterations_per_second": speed}
            emit("train", **{**info, **at})

        def on_val_loss_report(self, info):
            loss = info["val_loss"] if math.isfinite(info["val_loss"]) else None
            emit("valid", iteration=run.before + run.now, val_loss=loss)

    class UI:
        def __init__(self, total, rank=0):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

        def advance(self):
            run.now += 1
            emit("iteration", iteration=run.before + run.now)
            if (run.before + run.now) % run.save_every == 0 and run.now < run.args.iters:
                run.save()
            if run.now < run.args.iters:
                run.pause_if_asked()

        @contextmanager
        def val_task(self, total):
            def advance():
                run.pause_if_asked()

            yield advance

        def report_train(self, *_):
            pass

        def report_val(self, *_):
            pass

        def report_save(self, *_):
            pass

    train = lora.train

    def train_and_save(model, args, optimizer, **others):
        run.model, run.args, run.optimizer = model, args, optimizer
        if not tree_flatten(model.trainable_parameters()):
            raise ValueError("nothing would be trained: lora_parameters.keys names no module")
        if run.before > 0:
            run.restore_optimizer()
        run.save_every = max(args.steps_per_save, 1)
        # mlx-lm counts from 1 in each run, and would overwrite the checkpoints of an earlier one.
        args.steps_per_save = args.iters + 1
        emit("started", iteration=run.before, iterations=run.before + args.iters)
        train(model=model, args=args, optimizer=optimizer, **others)
        run.save()

    evaluate = lora.evaluate

    def evaluate_test_set(**others):
        loss = evaluate(**others)
        finite = loss if math.isfinite(loss) else None
        emit("test", iteration=run.before + run.now, test_loss=finite)
        return loss

    lora.train = train_and_save
    lora.evaluate = evaluate_test_set
    lora.get_reporting_callbacks = lambda *_, **__: Callback()
    trainer.TrainUI = UI
    lora.main()
    emit("finished", iteration=run.before + run.now)


if __name__ == "__main__":
    main()

#!/usr/bin/env node
// Stands for the Python of a training: prints the events of app/train/launch.py, saves an adapter
// that changes nothing, and pauses when it is asked to. It is called as
//
//   python -I -u -c LAUNCHER DONE --train --adapter-path DIR --iters N --model DIR ...
//
// An iteration takes HEADROOM_E2E_ITERATION_MS, or 20 ms.
const fs = require('node:fs');
const path = require('node:path');

const args = process.argv.slice(2);
const after = (flag) => args[args.indexOf(flag) + 1];
const done = Number(args[args.indexOf('-c') + 2]);
const all = done + Number(after('--iters'));
const dir = after('--adapter-path');

const emit = (event, fields) =>
  process.stdout.write(`@headroom ${JSON.stringify({ event, ...fields })}\n`);

/** Writes zeros for a matrix of the demo model's fourth layer. */
function save(name) {
  const tensors = {};
  let at = 0;
  for (const [part, shape] of Object.entries({ lora_a: [512, 2], lora_b: [2, 256] })) {
    const bytes = 4 * shape[0] * shape[1];
    tensors[`language_model.model.layers.3.self_attn.o_proj.${part}`] = {
      dtype: 'F32',
      shape,
      data_offsets: [at, (at += bytes)],
    };
  }
  const header = Buffer.from(JSON.stringify(tensors));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(header.length));
  fs.writeFileSync(path.join(dir, name), Buffer.concat([size, header, Buffer.alloc(at)]));
}

function saveAll(iteration) {
  const file = `${String(iteration).padStart(7, '0')}_adapters.safetensors`;
  save(file);
  save('adapters.safetensors');
  emit('saved', { iteration, file });
}

fs.writeFileSync(
  path.join(dir, 'adapter_config.json'),
  JSON.stringify({
    model: after('--model'),
    fine_tune_type: 'lora',
    lora_parameters: { rank: 2, scale: 20 },
  }),
);
let paused = false;
process.on('SIGINT', () => (paused = true));
process.stdin.on('end', () => (paused = true)).resume();

emit('started', { iteration: done, iterations: all });
let iteration = done;
emit('valid', { iteration, val_loss: 3 - iteration / 100 });
const timer = setInterval(
  () => {
    if (paused) {
      if (iteration > done) saveAll(iteration);
      emit('paused', { iteration });
      process.exit(75);
    }
    iteration++;
    emit('iteration', { iteration });
    if (iteration % 2 === 0)
      emit('train', {
        iteration,
        train_loss: 3 - iteration / 60 + 0.1 * Math.sin(iteration),
        learning_rate: 1e-5,
        iterations_per_second: 50,
        tokens_per_second: 1234.5,
        trained_tokens: iteration * 480,
        peak_memory: 1.5,
      });
    if (iteration % 10 === 0) emit('valid', { iteration, val_loss: 3 - iteration / 100 });
    if (iteration < all) return;
    clearInterval(timer);
    saveAll(iteration);
    emit('finished', { iteration });
    process.exit(0);
  },
  Number(process.env.HEADROOM_E2E_ITERATION_MS ?? 20),
);

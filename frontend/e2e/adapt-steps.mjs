// The end-to-end steps of the Adapt page. A program of ours stands for Python and mlx-lm; what the
// page, the server and the process do with each other is real.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  appendFile,
  chmod,
  copyFile,
  cp,
  mkdir,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ended, goTo, until } from './helpers.mjs';
import { lookEverywhere } from './looks.mjs';

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));
const sample = (index) =>
  JSON.stringify({
    messages: [
      { role: 'user', content: `Who has lamp ${index}?` },
      { role: 'assistant', content: `Ada has lamp ${index}.` },
    ],
  });

const modelFolder = (home) =>
  join(home, '.cache/huggingface/hub/models--mlx-community--Lamp-Qwen-4bit');

/** Adds a model of its own, as earlier steps may have removed the others. */
async function plantModel(home) {
  const outside = join(home, 'Lamp-Qwen-4bit');
  await cp(path('../../app/demo/model/'), outside, { recursive: true });
  await appendFile(join(outside, 'config.json'), '   '); // so that it differs from other copies
  const folder = join(modelFolder(home), 'snapshots/c0ffee');
  await mkdir(dirname(folder), { recursive: true });
  await rename(outside, folder);
}

/** Puts the fake trainer where Headroom would make its Python environment. */
async function plantTrainer(home) {
  const data =
    process.platform === 'darwin'
      ? join(home, 'Library/Application Support/Headroom')
      : join(home, 'data/headroom');
  const requirements = await readFile(path('../../app/train/requirements.txt'));
  const hash = createHash('sha256').update(requirements).digest('hex').slice(0, 12);
  const python = join(data, 'python', `mlx-lm-${hash}`, 'bin/python');
  await mkdir(dirname(python), { recursive: true });
  await copyFile(path('fake-trainer.cjs'), python);
  await chmod(python, 0o755);
}

const words = async (locator) => (await locator.innerText()).replace(/\s+/g, ' ').trim();
const progressOf = (card) => words(card.getByTestId('training-progress'));

export const adaptSteps = [
  [
    'Adapt checks samples: faults by line, lengths, memory, and what it would install',
    async ({ page, server, shot }) => {
      const { home } = server;
      if (!home) return 'the server has no home folder of its own';
      await mkdir(join(home, 'samples'));
      const lines = Array.from({ length: 80 }, (_, index) => sample(index));
      await writeFile(join(home, 'samples/lamps.jsonl'), `${lines.join('\n')}\n`);
      await writeFile(join(home, 'samples/faulty.jsonl'), `${lines[0]}\nnothing\n{"text": "x"}\n`);
      await plantModel(home);
      await goTo(page, 'Models');
      const rows = page.getByTestId('model');
      await rows
        .filter({ hasText: 'Lamp-Qwen-4bit' })
        .getByRole('button', { name: /^Lamp-Qwen/ })
        .click();
      await page.getByRole('button', { name: 'Train an adapter for Lamp-Qwen-4bit' }).click();
      const form = page.getByRole('form', { name: 'New training' });
      await until('the model is chosen', async () =>
        /Lamp-Qwen/.test(await form.getByLabel('Model', { exact: true }).inputValue()),
      );
      const samples = form.getByLabel('Samples', { exact: true });
      await samples.fill(join(home, 'samples/faulty.jsonl'));
      const faults = form.getByTestId('data-faults');
      await faults.waitFor();
      assert.match(
        await words(faults),
        /^These lines cannot be used: faulty\.jsonl, line 2: .* faulty\.jsonl, line 3: /,
      );
      assert.equal(await form.getByRole('button', { name: /Start Training$/ }).isDisabled(), true);
      await lookEverywhere(page, shot, 'adapt-faults');
      await samples.fill(join(home, 'samples/lamps.jsonl'));
      const check = form.getByTestId('data-check');
      await check.waitFor();
      assert.match(
        await words(check),
        /Training 72 [\d,]+ \d+ \d+ Validation 8 .* Each tenth sample of lamps\.jsonl is kept/,
      );
      assert.match(await words(form.getByTestId('training-memory')), /^(Fits|Tight): needs ~/);
      const python = await words(form.getByTestId('training-python'));
      assert.match(python, /mlx-lm [\d.]+, .* about 367 MB, from PyPI|needs Python 3\.11/);
      await plantTrainer(home);
      await form.getByText('More settings').click();
      await form.getByLabel('Name', { exact: true }).fill('lamps');
      await form.getByText('The Python environment is installed.').waitFor();
      await lookEverywhere(page, shot, 'adapt-form');
    },
  ],

  [
    'a training has curves, is paused and resumed, and its adapter answers in the chat',
    async ({ page, server, shot }) => {
      const { home } = server;
      if (!home) return 'the server has no home folder of its own';
      const form = page.getByRole('form', { name: 'New training' });
      await form.getByLabel('Iterations', { exact: true }).fill('150');
      const start = form.getByRole('button', { name: 'Start Training', exact: true });
      await until('it can start', () => start.isEnabled());
      await start.focus();
      await page.keyboard.press('Enter');
      const card = page.getByRole('region', { name: 'Training lamps' });
      const chart = card.getByTestId('loss-chart');
      await until('there are losses of both kinds', async () =>
        /^Training loss: .* Validation loss: /.test(
          (await chart.count()) ? await chart.getAttribute('aria-label') : '',
        ),
      );
      const sidebar = page.getByTestId('sidebar-jobs');
      assert.match(await words(sidebar), /^Training lamps/);
      await card.getByRole('button', { name: 'Pause' }).press('Enter');
      await card.getByText('Paused', { exact: true }).waitFor();
      const paused = await progressOf(card);
      const [, at] = /^Iteration (\d+) of 150, checkpoint at iteration \1$/.exec(paused) ?? [];
      assert.ok(Number(at) > 0 && Number(at) < 150, paused);
      await lookEverywhere(page, shot, 'adapt-paused');
      await page.reload();
      await goTo(page, 'Adapt');
      assert.equal(await progressOf(card), paused);
      await card.getByRole('button', { name: 'Resume' }).click();
      await card.getByText('Finished', { exact: true }).waitFor({ timeout: 60_000 });
      assert.equal(await progressOf(card), 'Iteration 150 of 150');
      assert.match(await words(card), /Training loss 0\.\d+ Validation loss 1\.500 Speed 1,23/);
      await card.getByText('Show as a table').click();
      assert.match(await words(card.getByRole('table')), / 150 0\.\d{3} 1\.500$/);
      const result = await words(card);
      const [, folder] = /The adapter is in (\S+?)\. /.exec(result) ?? [];
      assert.ok((await stat(join(folder, 'adapters.safetensors'))).size > 0, result);
      const chat = card.getByRole('button', { name: 'Chat with lamps' });
      await until('the adapter is in the list', () => chat.isEnabled(), 60_000);
      await lookEverywhere(page, shot, 'adapt-finished');
      await chat.click();
      const model = page.getByLabel('Model', { exact: true });
      await until('the chat has the adapter', async () =>
        /Lamp-Qwen-4bit\+lamps$/.test(await model.inputValue()),
      );
      await page.getByRole('textbox', { name: 'Message' }).fill('Who has lamp 3?');
      await page.keyboard.press('Control+Enter');
      await ended(page);
      assert.notEqual(await words(page.getByTestId('answer').first()), '');
      await shot('adapt-chat');
      await goTo(page, 'Adapt');
      await card.getByRole('button', { name: 'Dismiss' }).click();
      await card.waitFor({ state: 'detached' });
      await rm(folder, { recursive: true });
      await rm(modelFolder(home), { recursive: true });
    },
  ],
];

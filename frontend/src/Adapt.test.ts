// Tests the Adapt page with the fake backend, as a user sees and operates it.
import { flushSync } from 'svelte';
import { beforeEach, expect, test } from 'vitest';
import { FakeBackend } from './lib/backend/fake';
import { fakeJob } from './lib/backend/fake/transfers';
import { fakeTraining } from './lib/backend/fake/trainings';
import { ChatStore } from './lib/stores/chat.svelte';
import type { EngineStore } from './lib/stores/engine.svelte';
import { pass, testPage } from './testpage';
import Adapt from './views/Adapt.svelte';

let chat: ChatStore;
const openPage = testPage(
  Adapt,
  (engine, backend) => ({ engine, chat: (chat = new ChatStore(backend, localStorage)) }),
  400,
);
let backend: FakeBackend;
let engine: EngineStore;

const model = 'qwen3.6-35b-a3b';
const text = (selector: string) =>
  document.querySelector(selector)?.textContent?.replace(/\s+/g, ' ').trim() ?? '';

async function open(change?: (backend: FakeBackend) => void) {
  ({ backend, engine } = await openPage(change));
}

function button(name: string): HTMLButtonElement {
  const found = [...document.querySelectorAll('button')].filter(
    (element) => (element.getAttribute('aria-label') ?? element.textContent?.trim()) === name,
  );
  if (found.length !== 1) throw new Error(`${found.length} buttons ${name}`);
  return found[0]!;
}

async function click(name: string) {
  button(name).click();
  await pass(10);
}

async function set(id: string, value: string) {
  const field = document.querySelector<HTMLInputElement | HTMLSelectElement>(`#${id}`)!;
  field.value = value;
  const name = field instanceof HTMLSelectElement ? 'change' : 'input';
  field.dispatchEvent(new Event(name, { bubbles: true }));
  flushSync();
  await pass(400);
}

const started = () => backend.calls.filter((call) => /^(train|stop|resume|remove|end) /.test(call));
const job = (state: 'running' | 'stopped' | 'done' | 'failed', change = {}) =>
  fakeJob({
    id: 'training-1',
    kind: 'training',
    title: 'Tiny-data',
    totalBytes: 0,
    state,
    training: fakeTraining(change),
  });

beforeEach(() => (location.hash = ''));

test('from a model and samples to a training: check, needs, start', async () => {
  await open();
  const models = [...document.querySelectorAll<HTMLOptionElement>('#adapt-model option')];
  expect(models.map(({ value }) => value)).toContain(model);
  expect(models.map(({ value }) => value)).toContain('headroom-demo');
  expect(button('Start Training').disabled).toBe(true);
  await set('adapt-model', model);
  expect(text('[data-testid="data-check"]')).toBe('');
  expect(text('form [role=status]')).toBe('');
  await set('adapt-data', ' /home/you/data ');
  const check = text('[data-testid="data-check"]');
  expect(check).toContain('Training36043,200110480Validation404,800110480');
  expect(check).toContain('Samples are conversations.');
  expect(text('[data-testid="training-memory"]')).toBe('Fits: needs ~8.0 GB, 12.0 GB available.');
  expect(text('form [role=status]')).toBe('Ready to start.');
  expect(check).toContain('user: Hello assistant: Hello to you');
  expect(text('#adapt-iterations-help')).toBe('Each sample is seen about 11 times.');
  expect(text('[data-testid="training-python"]')).toContain('about 367 MB, from PyPI');
  await set('adapt-iterations', '200');
  await click('Install and Start Training');
  expect(started()).toEqual([`train ${model} /home/you/data 200 true`]);
  expect(text('[data-testid="training-progress"]')).toBe('Iteration 0 of 200');
  expect(document.activeElement?.getAttribute('aria-label')).toBe('Training Tiny-data');
  await pass(400);
  expect(text('form [role=status]')).toBe('Another training is running. One runs at a time.');
  expect(button('Install and Start Training').disabled).toBe(true);
});

test('faults are named by line, and what does not fit says what would', async () => {
  await open();
  await set('adapt-model', model);
  await set('adapt-data', '/home/you/faulty.jsonl');
  expect(text('[data-testid="data-faults"]')).toBe(
    'These lines cannot be used: faulty.jsonl, line 3: The line is empty, expected a JSON ' +
      'object.faulty.jsonl, line 9: Got "x", expected "messages".',
  );
  expect(button('Install and Start Training').disabled).toBe(true);
  await set('adapt-data', '/home/you/data');
  await set('adapt-batch', '8');
  const memory = text('[data-testid="needs"]');
  expect(text('form [role=status]')).toBe('It does not fit in memory.');
  expect(memory).toContain('Does not fit: needs ~16.0 GB, 12.0 GB available.');
  expect(memory).toContain('Use less, alone or together: batch size 1 needs 2.0 GB.');
  expect(memory).toContain('would free memory. Unload Models');
  expect(button('Install and Start Training').disabled).toBe(true);
});

test('a running training has curves, figures and a time, and can be paused', async () => {
  await open((fake) => fake.transfers.set([job('running')]));
  expect(text('[data-testid="training"]')).not.toContain('Training loss');
  backend.trainings.progress(
    'training-1',
    {
      iteration: 40,
      trainLoss: 1.5,
      validLoss: 1.9,
      tokensPerSecond: 350.2,
      peakBytes: 6 * 2 ** 30,
      secondsLeft: 130,
      losses: 7,
    },
    { phase: 'Training' },
  );
  await pass(10);
  expect(text('[data-testid="training-progress"]')).toBe(
    'Iteration 40 of 1,000, about 2 min 10 s left',
  );
  expect(text('[data-testid="training"] dl')).toBe(
    'Training loss 1.500Validation loss 1.900Speed 350 tok/sPeak memory 6.0 GB' +
      'Learning rate 1e-5',
  );
  const chart = document.querySelector('[data-testid="loss-chart"]')!;
  expect(chart.getAttribute('aria-label')).toBe(
    'Training loss: from 2.250 to 1.500 at iteration 40, least 1.500 at iteration 40. ' +
      'Validation loss: from 2.700 to 1.900 at iteration 40, least 1.900 at iteration 40.',
  );
  const rows = [...document.querySelectorAll('[data-testid="training"] tbody tr')];
  expect(rows.map((row) => row.textContent?.replace(/\s+/g, ' ').trim())).toContain('202.0002.300');
  const asked = () => backend.calls.filter((call) => call.startsWith('losses')).length;
  const before = asked();
  backend.trainings.progress('training-1', { iteration: 41 });
  await pass(10);
  expect(asked()).toBe(before);
  await click('Pause');
  expect(started()).toEqual(['stop training-1']);
});

test('a paused training is resumed, kept as it is, or discarded after a question', async () => {
  const paused = job('stopped', { iteration: 30, savedIteration: 30 });
  await open((fake) => fake.transfers.set([paused]));
  expect(text('[data-testid="training-progress"]')).toBe(
    'Iteration 30 of 1,000, checkpoint at iteration 30',
  );
  await click('Resume');
  backend.transfers.set([paused]);
  await pass(10);
  await click('Keep as It Is');
  backend.transfers.set([paused]);
  await pass(10);
  await click('Discard…');
  expect(text('dialog')).toContain('/home/you/models/adapters/Tiny-data is deleted');
  await click('Cancel');
  await click('Discard…');
  await click('Discard');
  expect(started()).toEqual(['resume training-1', 'end training-1', 'remove training-1']);
});

test('without a checkpoint nothing can be kept, and a failure says why', async () => {
  await open((fake) =>
    fake.transfers.set([
      {
        ...job('failed'),
        error: { code: 'x', message: 'The training has failed', why: 'memory', fix: '' },
      },
    ]),
  );
  expect(text('[role=alert]')).toBe('The training has failed. memory.');
  expect(document.body.textContent).not.toContain('Keep as It Is');
  await click('Try Again');
  expect(started()).toEqual(['resume training-1']);
});

test('a finished training says where the adapter is, and chats with it', async () => {
  await open((fake) => fake.transfers.set([job('done', { iteration: 1000 })]));
  expect(text('[data-testid="training"]')).toContain('in the list of models in a moment');
  expect(button('Chat with Tiny-data').disabled).toBe(true);
  const [found] = engine.models.all.filter(({ id }) => id === model);
  found!.adapters.push({
    id: `${model}+Tiny-data`,
    name: 'Tiny-data',
    path: '/home/you/models/adapters/Tiny-data',
    dora: false,
    rank: 8,
    sizeBytes: 1e6,
  });
  backend.transfers.set([job('done', { iteration: 1000 })]);
  await pass(10);
  expect(text('[data-testid="training"]')).toContain(
    `Apps use it as the model ${model}+Tiny-data.`,
  );
  await click('Chat with Tiny-data');
  expect(chat.setup.model).toBe(`${model}+Tiny-data`);
  expect(location.hash).toBe('#page=chat');
});

test('full fine-tuning ends with the command that makes a model', async () => {
  await open((fake) => fake.transfers.set([job('done', { fineTuneType: 'full' })]));
  expect(text('[data-testid="training"] code')).toBe(
    `headroom fuse "${model}" "/home/you/models/adapters/Tiny-data" ` +
      '"/home/you/models/adapters/Tiny-data-fused"',
  );
  expect(document.body.textContent).not.toContain('Chat with It');
});

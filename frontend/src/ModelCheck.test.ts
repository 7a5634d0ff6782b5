// Tests the check of a model on the Models page with the fake backend.
import { mount, unmount } from 'svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { FakeBackend, fakeState } from './lib/backend/fake';
import { fakeCheckRow } from './lib/backend/fake/checks';
import { EngineStore } from './lib/stores/engine.svelte';
import Models from './views/Models.svelte';
import { inOrder } from './inorder';
import { pass } from './testpage';

/** Between two steps of a check. */
const stepMs = 100;
const demo = 'headroom-demo';

let backend: FakeBackend;
let engine: EngineStore;
let page: Record<string, unknown>;

beforeEach(async () => {
  vi.useFakeTimers();
  backend = new FakeBackend(stepMs, fakeState(Date.now()));
  engine = new EngineStore(backend);
  engine.models.selected = demo;
  document.body.innerHTML = '';
  page = mount(Models, { target: document.body, props: { engine } });
  await pass(10);
});

afterEach(() => {
  void unmount(page);
  engine.close();
  vi.useRealTimers();
});

const section = () => document.querySelector('[data-testid="model-check"]')!;
const words = (element: Element | null | undefined) =>
  element?.textContent?.replace(/\s+/g, ' ').trim() ?? '';
const status = () => words(section().querySelector('[role="status"]'));
const comparisons = () => [...section().querySelectorAll('[data-testid="comparison"]')].map(words);
const button = () => section().querySelector('button')!;

async function press() {
  button().focus();
  button().click();
  await pass(10);
}

test('a check shows its progress, then each row and the verdict', async () => {
  expect(words(button())).toBe('Check this model');
  expect(comparisons()).toEqual([]);
  await press();
  expect(backend.calls).toEqual([`check ${demo}`]);
  expect(status()).toBe('Comparing 1 of 5: plain, in a crowd, from the prefix cache');
  expect(words(button())).toBe('Stop');
  expect(document.activeElement).toBe(button());
  const bar = section().querySelector('progress')!;
  expect([bar.value, bar.max]).toEqual([0, 5]);
  expect(bar.getAttribute('aria-label')).toBe(status());
  await pass(stepMs);
  expect(status()).toBe('Comparing 2 of 5: after a restart');
  expect(comparisons()).toHaveLength(3);
  await pass(4 * stepMs);
  expect(status()).toMatch(/^All 4 ways that must equal plain decoding do/);
  expect(words(button())).toBe('Check again');
  expect(document.activeElement).toBe(button());
  expect(comparisons()).toEqual([
    'plain, one by one Reference 8 answers, 384 tokens. Prefill 1,204 tok/s, decode 98.3 tok/s.',
    'in a crowd Equal Equal: 8 of 8 answers, 384 of 384 tokens. Same log-probabilities. ' +
      'Prefill 1,204 tok/s, decode 98.3 tok/s.',
    expect.stringMatching(/1,459 of 1,467 prompt tokens were cached\.$/),
    expect.stringMatching(/^after a restart Equal /),
    expect.stringMatching(/41 of 60 drafts were right\.$/),
    expect.stringMatching(
      inOrder(
        /^KV cache in f16 Differs, allowed Equal: 7 of 8 answers, 340 of 384 tokens\./,
        /Log-probabilities within 0\.032\./,
        /Answer 7 differs from token 4 on: plain “w” \(-2\.763\), here the end\.$/,
      ),
    ),
    'on the GPU Not tried no GPU.',
  ]);
  expect(words(section())).toMatch(
    /Checked \d\d:\d\d on CPU, .*, KV cache K8 g64 \+ V4 g32; 8 answers of at most 48 tokens\.$/,
  );
});

test('a check is stopped; its rows stay, also after another model was shown', async () => {
  await press();
  await pass(stepMs);
  await press();
  expect(backend.calls.at(-1)).toBe(`stop check ${demo}`);
  expect(status()).toBe('Stopped.');
  await pass(10 * stepMs);
  expect(comparisons()).toHaveLength(3);
  engine.models.selected = 'mlx-community/Qwen3.5-9B-4bit';
  await pass(10);
  expect(comparisons()).toEqual([]);
  engine.models.selected = demo;
  await pass(10);
  expect(comparisons()).toHaveLength(3);
  expect(words(button())).toBe('Check again');
});

test('a refusal is shown with its reason and what to do, and can be dismissed', async () => {
  await press();
  engine.models.selected = 'mlx-community/Qwen3.5-9B-4bit';
  await pass(10);
  await press();
  const alert = () => section().querySelector('[role="alert"]');
  expect(words(alert())).toMatch(
    /^A check is already running\. headroom-demo is being checked\. Wait until it is done, /,
  );
  section().querySelector<HTMLButtonElement>('[role="alert"] button')!.click();
  await pass(10);
  expect(alert()).toBeNull();
});

test('a difference that must not be is red, and a failure says why', async () => {
  const parting = {
    prompt: 1,
    token: 2,
    plain: { text: 'a', ended: false, logprob: -0.5 },
    other: { text: 'b', ended: false, logprob: null },
  };
  const row = fakeCheckRow({ largestDifference: null, partings: [parting] });
  backend.checks.set(demo, {
    status: 'done',
    equal: false,
    verdict: 'Different.',
    rows: [row, row],
  });
  await pass(10);
  const last = section().querySelectorAll('[data-testid="comparison"]')[1]!;
  expect(words(last)).toMatch(
    inOrder(/^in a crowd Different /, /are not numbers\./, /plain “a” \(-0\.500\), here “b”\.$/),
  );
  expect(last.querySelectorAll('.bad')).toHaveLength(2);
  expect(section().querySelector('[role="status"]')!.classList).toContain('bad');
  const error = { code: 'model_crashed', message: 'It ended', why: 'the GPU hung', fix: '' };
  backend.checks.set(demo, { status: 'failed', error });
  await pass(10);
  expect(words(section().querySelector('[role="alert"]'))).toMatch(/^It ended\. The GPU hung\./);
});

test('only a model that answers with text can be checked', async () => {
  backend.setModels(
    backend.found.map((model) => (model.id === demo ? { ...model, task: 'embed' } : model)),
  );
  await pass(2000);
  expect(document.querySelector('[data-testid="model-details"]')).not.toBeNull();
  expect(document.querySelector('[data-testid="model-check"]')).toBeNull();
});

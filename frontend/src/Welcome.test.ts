// Tests the welcome with the fake backend, as a user sees and operates it.
import { flushSync, unmount } from 'svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { FakeBackend, fakeState, hubModel } from './lib/backend/fake';
import { EngineStore } from './lib/stores/engine.svelte';
import { mountApp, pass } from './testpage';

let backend: FakeBackend;
let engine: EngineStore;
let app: Record<string, unknown> | null = null;

beforeEach(() => {
  vi.useFakeTimers();
  localStorage.clear();
  location.hash = '';
});

afterEach(() => {
  if (app) void unmount(app);
  app = null;
  engine.close();
  vi.useRealTimers();
});

async function open(
  change: (backend: FakeBackend, state: ReturnType<typeof fakeState>) => void = () => {},
) {
  const state = fakeState(Date.now());
  backend = new FakeBackend(2, state);
  backend.general = { ...backend.general, welcomed: false };
  change(backend, state);
  engine = new EngineStore(backend);
  ({ app } = mountApp(backend, engine));
  await pass(20);
}

const dialog = () => document.querySelector('dialog');
const text = () => dialog()?.textContent?.replace(/\s+/g, ' ').trim() ?? '';
const general = () => backend.calls.filter((call) => call.startsWith('general'));

async function press(name: string) {
  const label = (element: Element) =>
    element.getAttribute('aria-label') ?? element.textContent?.trim();
  const found = [...dialog()!.querySelectorAll('button')].find(
    (element) => label(element) === name,
  );
  if (!found) throw new Error(`no button ${name} in ${text()}`);
  found.click();
  await pass(10);
}

const primary = () => dialog()!.querySelector<HTMLButtonElement>('.button.primary')!;

/** Presses Return where the focus is. */
async function enter() {
  const target = document.activeElement ?? document.body;
  const event = new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true });
  if (target.dispatchEvent(event) && target instanceof HTMLButtonElement) target.click();
  await pass(10);
}

test('Return leads to the chat, and a suggestion there to an answer', async () => {
  await open();
  expect(text()).toContain('Step 1 of 2');
  expect(document.activeElement?.textContent).toBe('Welcome to Headroom');
  expect(text()).toMatch(/24\.0 GB of memory\. 15\.5 GB is available for a model\./);
  const offers = [...document.querySelectorAll('[data-testid="suggestion"]')].map((one) =>
    one.textContent!.replace(/\s+/g, ' ').trim(),
  );
  expect(offers).toHaveLength(3);
  expect(offers[1]).toBe(
    'Qwen3-8B-4bit A good all-rounder ~4.6 GB to download, ~17 tok/s, apache-2.0 ' +
      'Needs ~6.9 GB Fits Download',
  );
  await enter();
  expect(document.activeElement?.textContent).toBe('Ready to chat');
  expect(text()).toContain(engine.state!.endpoint.url);
  expect(text()).toMatch(/Headroom demo is ready\. A tiny demo model is included .* toy/);
  await press('Back');
  expect(text()).toContain('Step 1 of 2');
  await enter();
  await enter();
  expect(dialog()).toBeNull();
  expect(general()).toEqual(['general {"welcomed":true}']);
  expect(document.activeElement?.tagName).toBe('TEXTAREA');
  expect(document.body.textContent).toContain('This is the demo model, a toy');
});

test('Return on a button does what the button says', async () => {
  await open();
  const download = dialog()!.querySelector<HTMLButtonElement>('[aria-label^="Download "]')!;
  download.focus();
  await enter();
  expect(text()).toContain('Step 1 of 2');
  expect(backend.calls).toContain('download mlx-community/Qwen3-14B-4bit');
});

test('a model that is downloaded in the welcome starts by itself', async () => {
  await open();
  await press('Download mlx-community/Qwen3-8B-4bit');
  const [job] = backend.transfers.jobs;
  backend.transfers.set([{ ...job!, doneBytes: 9.3e9 }]);
  flushSync();
  expect(text()).toContain('Downloading 50 %');
  await press('Next');
  expect(text()).toMatch(/Downloading Qwen3-8B-4bit 9\.3 GB of 18\.6 GB \(50 %\)/);
  expect(primary().textContent?.trim()).toBe('Open Chat');
  backend.transfers.set([{ ...job!, state: 'done' }]);
  backend.setModels([...backend.found, hubModel('mlx-community/Qwen3-8B-4bit')], []);
  await pass(3000);
  expect(backend.calls).toContain('start mlx-community/Qwen3-8B-4bit');
  await pass(3000);
  expect(text()).toContain('Qwen3-8B-4bit is ready.');
  expect(text()).not.toContain('toy');
});

test('without a connection, a download says so, and the demo model answers', async () => {
  await open();
  await press('Download mlx-community/Qwen3-8B-4bit');
  const [job] = backend.transfers.jobs;
  const error = {
    code: 'upstream',
    message: 'Hugging Face cannot be reached',
    why: 'this computer seems to be offline',
    fix: '',
  };
  backend.transfers.set([{ ...job!, state: 'failed', error }]);
  flushSync();
  await press('Next');
  expect(text()).toContain(
    'Hugging Face cannot be reached. This computer seems to be offline. Headroom demo is ready.',
  );
});

test('opening Chat starts a stopped engine', async () => {
  await open((_, state) => {
    state.engine.status = 'stopped';
    state.engine.model = '';
  });
  await press('Next');
  expect(text()).toContain('Headroom demo starts when you open the chat.');
  await press('Open Chat');
  expect(backend.calls.some((call) => call.startsWith('start'))).toBe(true);
});

test('the welcome can be closed at once, and then is not shown again', async () => {
  await open();
  dialog()!.dispatchEvent(new Event('cancel', { cancelable: true }));
  await pass(10);
  expect(dialog()).toBeNull();
  expect(general()).toEqual(['general {"welcomed":true}']);
  engine.close();
  if (app) void unmount(app);
  await open((fake) => (fake.general = { ...fake.general, welcomed: true }));
  expect(dialog()).toBeNull();
});

test('Settings can show the welcome again', async () => {
  await open((fake) => (fake.general = { ...fake.general, welcomed: true }));
  window.dispatchEvent(new KeyboardEvent('keydown', { key: ',', ctrlKey: true, cancelable: true }));
  await pass(20);
  document.querySelector<HTMLButtonElement>('[aria-label="Show again: the welcome"]')!.click();
  await pass(10);
  expect(text()).toContain('Step 1 of 2');
});

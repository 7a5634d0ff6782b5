// Tests where the focus goes when what had it leaves the page.
import { flushSync, unmount } from 'svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { FakeBackend, fakeJob, fakeState } from './lib/backend/fake';
import { keepFocus } from './lib/focus';
import { newMessage } from './lib/stores/conversations';
import { EngineStore } from './lib/stores/engine.svelte';
import { mountApp } from './testpage';

let backend: FakeBackend;
let engine: EngineStore | null = null;
let page: Record<string, unknown> | null = null;

beforeEach(() => {
  vi.useFakeTimers();
  location.hash = '';
  localStorage.clear();
  document.body.innerHTML = '';
});

afterEach(() => {
  if (page) void unmount(page);
  page = null;
  engine?.close();
  engine = null;
  vi.useRealTimers();
});

async function open(where: string, change: (backend: FakeBackend) => void = () => {}) {
  backend = new FakeBackend(0, fakeState(Date.now()));
  change(backend);
  engine = new EngineStore(backend);
  const { app, router } = mountApp(backend, engine);
  page = app;
  router.go(where);
  await pass(100);
}

async function pass(ms: number) {
  await vi.advanceTimersByTimeAsync(ms);
  flushSync();
  await vi.advanceTimersByTimeAsync(1);
}

const label = (element: Element | null) =>
  element?.getAttribute('aria-label') ?? element?.textContent?.replace(/\s+/g, ' ').trim() ?? '';

function button(name: RegExp): HTMLButtonElement {
  const found = [...document.querySelectorAll('button')].find((one) => name.test(label(one)));
  if (!found) throw new Error(`no button ${name}`);
  return found;
}

/** Presses a button as the keyboard does: it has the focus. */
async function press(name: RegExp) {
  button(name).focus();
  button(name).click();
  await pass(50);
}

const focused = () => label(document.activeElement);

test('a conversation is deleted: the next one has the focus', async () => {
  await open('chat', ({ chats }) => {
    for (const [at, name] of ['One', 'Two', 'Three'].entries())
      chats.put(name, name, Date.now() - at * 1000, [newMessage('user', name)]);
  });
  await press(/^Delete.*Two/);
  expect(focused()).toMatch(/^Three/);
  await press(/^Delete.*Three/);
  expect(focused()).toMatch(/^One/);
});

test('a model is unloaded: the button in its row has the focus again', async () => {
  await open('models');
  await press(/^Unload: Headroom demo$/);
  await pass(2000);
  expect(focused()).toBe('Start: Headroom demo');
});

test('a job is dismissed: the next one has the focus, after the last one the page', async () => {
  await open('models');
  const done = (id: string) => fakeJob({ id, title: id, state: 'stopped' });
  backend.transfers.set([done('one'), done('two')]);
  await pass(10);
  await press(/^Discard: one$/);
  expect(focused()).toBe('Resume');
  await press(/^Discard: two$/);
  expect(document.querySelector('main')!.contains(document.activeElement)).toBe(true);
});

test('a sheet is closed whose opener has gone: its neighbour has the focus', async () => {
  await open('models');
  const opener = button(/^Import…$/);
  await press(/^Import…$/);
  expect(document.querySelector('dialog')).not.toBeNull();
  opener.remove();
  await press(/^Close$/);
  expect(document.querySelector('dialog')).toBeNull();
  expect(focused()).toBe('Download…');
});

test('a changed setting keeps the focus, though its field is drawn anew', async () => {
  await open('settings');
  const field = () =>
    document.querySelector<HTMLInputElement>('[id^="setting"][aria-describedby*="modelFolders"]')!;
  field().focus();
  field().value = '/models';
  field().dispatchEvent(new Event('change', { bubbles: true }));
  await pass(50);
  expect(document.activeElement).toBe(field());
});

test('what is disabled for a moment gets the focus back; a click beside it takes it', async () => {
  document.body.innerHTML = '<main tabindex="-1"><button>One</button><button>Two</button></main>';
  const stop = keepFocus();
  const [one, two] = [button(/^One$/), button(/^Two$/)];
  two.focus();
  two.disabled = true;
  two.blur();
  await pass(10);
  two.disabled = false;
  await pass(10);
  expect(document.activeElement).toBe(two);
  two.blur();
  await pass(10);
  two.remove();
  await pass(10);
  expect(document.activeElement).toBe(document.body);
  one.focus();
  one.remove();
  await pass(10);
  expect(document.activeElement).toBe(document.querySelector('main'));
  stop();
});

test('Tab leaves a control whose tooltip closes: it does not get the focus back', async () => {
  document.body.innerHTML = '<main tabindex="-1"><button>One</button><button>Two</button></main>';
  const stop = keepFocus();
  const [one, two] = [button(/^One$/), button(/^Two$/)];
  const tooltip = document.body.appendChild(document.createElement('p'));
  one.focus();
  const came: string[] = [];
  const note = ({ target }: FocusEvent) => came.push(label(target as Element));
  document.addEventListener('focusin', note);
  // A browser runs the observers between the two events. A focus given there ends the move of Tab.
  one.blur();
  tooltip.remove();
  for (let i = 0; i < 5; i++) await Promise.resolve();
  two.focus();
  await pass(10);
  document.removeEventListener('focusin', note);
  stop();
  expect(came).toEqual(['Two']);
});

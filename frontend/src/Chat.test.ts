// Tests the Chat page with the fake backend: header, thread, search, attachments.
import { flushSync, mount, unmount } from 'svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { FakeBackend } from './lib/backend/fake';
import { ChatStore } from './lib/stores/chat.svelte';
import { newMessage } from './lib/stores/conversations';
import { EngineStore } from './lib/stores/engine.svelte';
import Chat from './views/Chat.svelte';
import { pass } from './testpage';

let backend: FakeBackend;
let engine: EngineStore;
let chat: ChatStore;
let page: Record<string, unknown> | null = null;

beforeEach(() => {
  vi.useFakeTimers();
  localStorage.clear();
});

afterEach(() => {
  if (page) void unmount(page);
  page = null;
  engine.close();
  vi.useRealTimers();
});

async function open(prepare: (backend: FakeBackend) => void = () => {}) {
  backend = new FakeBackend(10);
  prepare(backend);
  engine = new EngineStore(backend);
  chat = new ChatStore(backend, localStorage);
  document.body.innerHTML = '';
  page = mount(Chat, { target: document.body, props: { engine, chat } });
  void chat.conversations.refresh();
  await pass(100);
}

const element = <T extends HTMLElement>(selector: string) => document.querySelector<T>(selector)!;
const named = <T extends HTMLElement>(label: string) => element<T>(`[aria-label="${label}"]`);

function type(field: HTMLInputElement | HTMLTextAreaElement, text: string) {
  field.value = text;
  field.dispatchEvent(new Event('input', { bubbles: true }));
  flushSync();
}

function press(target: EventTarget, key: string, more: KeyboardEventInit = {}) {
  const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more });
  target.dispatchEvent(event);
  flushSync();
  return event;
}

test('Return sends; with Shift, Option or an input method it does not', async () => {
  await open();
  const field = named<HTMLTextAreaElement>('Message');
  type(field, 'Hello');
  for (const more of [
    { shiftKey: true },
    { altKey: true },
    { isComposing: true },
    { keyCode: 229 },
  ])
    expect(press(field, 'Enter', more).defaultPrevented).toBe(false);
  expect(backend.asked).toEqual([]);
  expect(press(field, 'Enter').defaultPrevented).toBe(true);
  await pass(3000);
  expect(backend.asked).toHaveLength(1);
  expect(field.value).toBe('');
});

test('each chat has its own draft', async () => {
  await open(({ chats }) => chats.put('a', 'Old', Date.now(), [newMessage('user', 'One')]));
  const field = () => named<HTMLTextAreaElement>('Message');
  type(field(), 'for the old chat');
  chat.startNew();
  await pass(10);
  expect(field().value).toBe('');
  type(field(), 'for a new chat');
  chat.conversations.show('a');
  await pass(10);
  expect(field().value).toBe('for the old chat');
  press(field(), 'Enter');
  await pass(3000);
  expect(field().value).toBe('');
  chat.startNew();
  await pass(10);
  expect(field().value).toBe('for a new chat');
  void unmount(page!);
  page = mount(Chat, { target: document.body, props: { engine, chat } });
  await pass(10);
  expect(field().value).toBe('for a new chat');
});

test('the wait for the first token is said once, and not each count of the prefill', async () => {
  await open();
  type(named<HTMLTextAreaElement>('Message'), 'word '.repeat(2000)); // 2,500 tokens, 128 at a time
  press(named('Message'), 'Enter');
  const shown = new Set<string | undefined>();
  const said = new Set<string | null>();
  await pass(1);
  for (let waiting; (waiting = document.querySelector('[data-testid="waiting"]')); await pass(1)) {
    expect(waiting.closest('[role="status"], [aria-live]')).toBeNull();
    shown.add(waiting.textContent?.match(/Prefill, \d+ of/)?.[0]);
    for (const one of waiting.querySelectorAll('[role="status"]')) said.add(one.textContent);
  }
  expect([...shown].filter(Boolean).length).toBeGreaterThan(1);
  expect([...said]).toEqual(['Waiting for the first token']);
});

test('a finished answer is said once, and not while it is written or opened again', async () => {
  await open(({ chats }) =>
    chats.put('a', 'Old', Date.now(), [newMessage('user', 'One'), newMessage('assistant', 'Two')]),
  );
  const said = () => element('[data-testid="spoken"]').textContent;
  expect(said()).toBe('');
  expect(document.querySelector('.column[aria-live], .thread [aria-live]')).toBeNull();
  type(named<HTMLTextAreaElement>('Message'), 'Say **it**');
  press(named('Message'), 'Enter');
  await pass(60);
  expect(chat.run).not.toBeNull();
  expect(said()).toBe('');
  await pass(5000);
  expect(chat.run).toBeNull();
  expect(said()).toMatch(/^Answer: .*it/);
  expect(said()).toContain('Say it');
  chat.startNew();
  await pass(10);
  chat.conversations.show('a');
  await pass(10);
  expect(chat.open?.messages).toHaveLength(4);
});

test('the picked model answers, and is remembered with its chat', async () => {
  await open();
  const picker = named<HTMLSelectElement>('Model');
  const other = [...picker.options].find(({ value }) => value !== picker.value)!;
  picker.value = other.value;
  picker.dispatchEvent(new Event('change', { bubbles: true }));
  flushSync();
  expect(document.body.textContent).toContain('Loads with the next question');
  type(named<HTMLTextAreaElement>('Message'), 'Hello');
  press(named('Message'), 'Enter');
  await pass(3000);
  expect(backend.asked[0]?.model).toBe(other.value);
  expect([...backend.chats.kept.values()][0]?.setup).toEqual({ model: other.value });
});

test('an adapter is chosen like a model, and answers', async () => {
  const rest = { name: 'lamps', path: '/a/lamps', dora: false, rank: 8, sizeBytes: 1e6 };
  await open((fake) => {
    fake.found = fake.found.map((one) => ({
      ...one,
      adapters: [{ ...rest, id: `${one.id}+lamps` }],
    }));
  });
  const picker = named<HTMLSelectElement>('Model');
  const option = [...picker.options].find(({ value }) => value.endsWith('+lamps'))!;
  expect(option.textContent).toMatch(/\+lamps$/);
  picker.value = option.value;
  picker.dispatchEvent(new Event('change', { bubbles: true }));
  flushSync();
  type(named<HTMLTextAreaElement>('Message'), 'Hello');
  press(named('Message'), 'Enter');
  await pass(3000);
  expect(backend.asked[0]?.model).toBe(option.value);
});

test('the search within a chat begins at the last match and goes around', async () => {
  await open(({ chats }) => {
    const messages = ['One cache', 'two', 'Cache three'].map((text) => newMessage('user', text));
    chats.put('a', 'Old', Date.now(), messages);
  });
  named<HTMLButtonElement>('Find in this chat').click();
  await pass(10);
  const field = named<HTMLInputElement>('Find in this chat');
  const input = document.querySelector<HTMLInputElement>('.find input')!;
  expect(field).toBeTruthy();
  const status = () => element('.find [role="status"]').textContent!.trim();
  type(input, 'cache');
  expect(status()).toBe('2 of 2');
  press(input, 'Enter');
  expect(status()).toBe('1 of 2');
  press(input, 'Enter', { shiftKey: true });
  expect(status()).toBe('2 of 2');
  type(input, 'nothing');
  expect(status()).toBe('No matches');
  press(input, 'Escape');
  await pass(10);
  expect(document.querySelector('.find')).toBeNull();
});

test('the end of the context is announced before it comes', async () => {
  const stats = { promptTokens: 1, answerTokens: 0 };
  await open(({ chats, state }) => {
    const { contextTokens } = state.engines[0] ?? state.engine;
    stats.promptTokens = Math.round(contextTokens * 0.81);
    chats.put('a', 'Old', Date.now(), [
      newMessage('user', 'One'),
      { ...newMessage('assistant', 'Yes'), end: 'stop', stats },
    ]);
  });
  expect(named('Context used').textContent).toContain('81 %');
  expect(element('.warning').textContent).toMatch(/Start a new chat soon/);
  type(named<HTMLTextAreaElement>('Message'), 'x'.repeat(2_000_000));
  expect(element('.warning').textContent).toMatch(/This question does not fit: ~/);
});

test('a long question is folded', async () => {
  await open(({ chats }) =>
    chats.put('a', 'Old', Date.now(), [newMessage('user', 'line\n'.repeat(40))]),
  );
  const fold = () => element<HTMLButtonElement>('.below button');
  expect([fold().textContent, element('.bubble').classList.contains('folded')]).toEqual([
    'Show all',
    true,
  ]);
  fold().click();
  flushSync();
  expect([fold().textContent, element('.bubble').classList.contains('folded')]).toEqual([
    'Show less',
    false,
  ]);
});

test('pasted and dropped files are attached; one that is refused is named', async () => {
  await open();
  const file = (name: string, text: string) =>
    Object.assign(new File([], name), {
      arrayBuffer: () => Promise.resolve(new TextEncoder().encode(text).buffer),
    });
  const hand = (kind: string, data: string, files: File[]) => {
    const event = new Event(kind, { bubbles: true, cancelable: true });
    Object.assign(event, { [data]: { files, types: ['Files'] } });
    named('Message').dispatchEvent(event);
    return event.defaultPrevented;
  };
  expect(hand('paste', 'clipboardData', [])).toBe(false);
  expect(hand('paste', 'clipboardData', [file('a.txt', 'a')])).toBe(true);
  expect(hand('drop', 'dataTransfer', [file('b.txt', 'b'), file('c.png', '\0')])).toBe(true);
  await pass(50);
  expect(document.querySelectorAll('[data-testid="attachment"]')).toHaveLength(2);
  expect(element('[role="alert"]').textContent).toContain('c.png cannot be attached');
  named<HTMLButtonElement>('Remove: a.txt').click();
  flushSync();
  expect(element('[data-testid="attachment"]').textContent).toContain('b.txt');
});

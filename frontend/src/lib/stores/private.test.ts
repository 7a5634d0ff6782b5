// Private conversations: they work as others do, and nothing of them is stored.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { HeadroomError } from '../backend/backend';
import { FakeBackend } from '../backend/fake';
import { ChatStore } from './chat.svelte';

let backend: FakeBackend;
let store: ChatStore;

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

beforeEach(async () => {
  vi.useFakeTimers({ now: 1_000_000 });
  localStorage.clear();
  sessionStorage.clear();
  backend = new FakeBackend(10);
  store = new ChatStore(backend, localStorage);
  await store.conversations.refresh();
});

afterEach(() => vi.useRealTimers());

async function ask(question: string) {
  void store.send(question, 'm');
  await pass(3000);
}

const leaves = () => window.dispatchEvent(new Event('beforeunload', { cancelable: true }));

// First, because the stores of other tests go on listening to the window.
test('closing the page asks first while there is a private conversation', async () => {
  await ask('Hello');
  expect(leaves()).toBe(true);
  store.startNew(true);
  expect(leaves()).toBe(true); // it is empty
  await ask('A private matter');
  expect(leaves()).toBe(false);
  await store.conversations.remove(store.open!);
  expect([leaves(), store.conversations.removed]).toEqual([true, null]);
});

test('nothing of a private conversation is stored, and it is gone in a new page', async () => {
  store.startNew(true);
  expect(store.private).toBe(true);
  await ask('SECRET one');
  await ask('SECRET two');
  const asked = store.open!;
  expect(asked).toMatchObject({ private: true, revision: 0, title: 'SECRET one' });
  expect(asked.messages).toHaveLength(4);
  expect(backend.asked.map((request) => request.private)).toEqual([true, true]);
  store.conversations.rename(asked, 'SECRET name');
  store.setTools([{ type: 'SECRET' }]);
  store.branch(asked.messages[0]!.id);
  expect(store.open).toMatchObject({ private: true, title: 'SECRET name (branch)' });
  window.dispatchEvent(new Event('pagehide'));
  await pass(10_000);
  expect([backend.chats.writes, backend.chats.kept.size]).toEqual([[], 0]);
  expect(JSON.stringify([{ ...localStorage }, { ...sessionStorage }])).not.toContain('SECRET');
  const page = new ChatStore(backend, localStorage);
  await page.conversations.refresh();
  expect(page.conversations.all).toEqual([]);
});

test('it stays in the list beside others, through reloads of the list and searches', async () => {
  store.startNew(true);
  await ask('A private matter');
  const id = store.open!.id;
  store.startNew();
  expect(store.private).toBe(false);
  await ask('Hello');
  expect(backend.asked.map((request) => request.private)).toEqual([true, undefined]);
  expect(backend.chats.kept.size).toBe(1);
  backend.chats.put('other', 'From another window', 5, []);
  await store.conversations.refresh();
  const titles = () => store.conversations.shown.map(({ title }) => title);
  expect(titles()).toEqual(['Hello', 'A private matter', 'From another window']);
  store.conversations.search('private');
  await pass(1000);
  expect(titles()).toEqual(['A private matter']);
  store.conversations.search('nothing like it');
  await pass(1000);
  expect(titles()).toEqual([]);
  store.conversations.search('');
  store.conversations.show(id);
  expect([store.private, store.open?.messages.length]).toEqual([true, 2]);
});

test('a conversation that was erased with everything is not saved again', async () => {
  await ask('Hello');
  const id = store.open!.id;
  backend.chats.refuses = new HeadroomError({ code: 'not_found', message: '', why: '', fix: '' });
  store.conversations.changed(store.open!, 0);
  await pass(10_000);
  backend.chats.refuses = null;
  await pass(10_000);
  expect(store.conversations.all.map((one) => one.id)).not.toContain(id);
  expect(backend.chats.writes.filter((write) => write.id !== id)).toEqual([]);
});

// Conversations saved to disk and loaded again, over the fake backend.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { HeadroomError } from '../backend/backend';
import { FakeBackend } from '../backend/fake';
import { ChatStore } from './chat.svelte';
import { newMessage, storageKey } from './conversations';

let backend: FakeBackend;

beforeEach(() => {
  vi.useFakeTimers({ now: 1_000_000 });
  localStorage.clear();
  backend = new FakeBackend(10);
});

afterEach(() => vi.useRealTimers());

/** A page. It loads the list when it opens, and after each change of the list. */
async function page(): Promise<ChatStore> {
  const store = new ChatStore(backend, localStorage);
  backend.watch({
    onState() {},
    onConnection() {},
    onChats: () => void store.conversations.refresh(),
  });
  await pass(0);
  return store;
}

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const titles = ({ conversations }: ChatStore) => conversations.all.map(({ title }) => title);
const said = ({ open }: ChatStore) =>
  open?.messages.map(({ content, end }) => (end ? `${content} (${end})` : content));
const onDisk = (id: string) =>
  backend.chats.kept.get(id)?.messages as { content: string; end: string }[] | undefined;

async function ask(store: ChatStore, question: string) {
  void store.send(question, 'm');
  await pass(3000);
}

test('messages of one page are read by another page, and after a restart', async () => {
  const [one, other] = [await page(), await page()];
  await ask(one, 'Hello');
  expect(titles(other)).toEqual(['Hello']);
  expect(other.open?.id).toBe(one.open?.id);
  expect(said(other)).toEqual(said(one));
  await ask(other, 'And again');
  expect(said(one)).toEqual(said(other));
  expect(said(await page())).toEqual(said(one));
  expect(one.open?.messages).toHaveLength(4);
  expect([titles(one), titles(other)]).toEqual([['Hello'], ['Hello']]);
});

test('an answer is saved while it arrives; each write replaces only its message', async () => {
  const store = await page();
  backend.pauseMs = 400;
  void store.send('Hello', 'm');
  await pass(4200); // five pauses of reading, five of writing
  const id = store.open!.id;
  const half = onDisk(id)![1]!.content;
  expect([half.length > 0, onDisk(id)![1]!.end, store.run !== null]).toEqual([true, '', true]);
  window.dispatchEvent(new Event('pagehide')); // the page closes in the middle
  await pass(0);
  expect(onDisk(id)![1]!.content).toBe(store.open!.messages[1]!.content);
  expect(said(await page())?.[1]).toMatch(/\(stopped\)$/);
  expect(
    backend.chats.writes
      .slice(1)
      .every(({ change }) => change.from === 1 && change.messages.length === 1),
  ).toBe(true);
});

test.each(['before', 'after'])(
  'a write that is running when the page closes may arrive %s the last one',
  async (order) => {
    const store = await page();
    const write = backend.chats.write.bind(backend.chats);
    let first = true;
    backend.chats.write = async (id, change) => {
      const ms = first === (order === 'before') ? 100 : 300;
      first = false;
      await new Promise((resolve) => setTimeout(resolve, ms));
      return write(id, change);
    };
    backend.pauseMs = 10;
    void store.send('Hello', 'm');
    await pass(80);
    const said = store.open!.messages[1]!.content;
    expect(said).not.toBe('');
    window.dispatchEvent(new Event('pagehide'));
    await pass(400);
    const id = [...backend.chats.kept.keys()][0]!;
    expect(onDisk(id)![1]!.content.startsWith(said)).toBe(true);
    await pass(5000); // the page was not gone after all, and goes on
    expect([backend.chats.kept.size, store.conversations.error, onDisk(id)![1]!.content]).toEqual([
      1,
      null,
      store.open!.messages[1]!.content,
    ]);
  },
);

test('an answer that ends because the page closes has not failed', async () => {
  const store = await page();
  const chat = backend.chat.bind(backend);
  backend.chat = async function* (request, signal) {
    yield* chat(request, signal);
    window.dispatchEvent(new Event('beforeunload'));
    throw new HeadroomError({ code: 'unreachable', message: 'Gone.', why: '', fix: '' });
  };
  await ask(store, 'Hello');
  expect(store.open?.messages[1]).toMatchObject({ end: 'stopped', error: null });
  expect(onDisk(store.open!.id)?.[1]?.end).toBe('stopped');
});

test('two pages answer in one conversation: both versions are saved', async () => {
  const [one, other] = [await page(), await page()];
  await ask(one, 'Hello');
  void one.send('Mine', 'm');
  void other.send('Yours', 'm');
  await pass(5000);
  expect(titles(one).toSorted()).toEqual(['Hello', 'Hello (copy)']);
  expect(titles(other).toSorted()).toEqual(titles(one).toSorted());
  expect(said(one)?.at(-1)).toContain('> Mine');
  expect(said(other)?.at(-1)).toContain('> Yours');
  const last = [...backend.chats.kept.values()].map(
    ({ messages }) => (messages as { content: string }[]).at(-2)!.content,
  );
  expect(last.toSorted()).toEqual(['Mine', 'Yours']);
});

test('a failed write is retried until it succeeds', async () => {
  const store = await page();
  backend.chats.refuses = new HeadroomError({
    code: 'disk_full',
    message: 'Full.',
    why: '',
    fix: '',
  });
  await ask(store, 'Hello');
  expect([store.conversations.error?.code, backend.chats.kept.size]).toEqual(['disk_full', 0]);
  await store.conversations.refresh();
  expect(titles(store)).toEqual(['Hello']);
  backend.chats.refuses = null;
  await pass(6000);
  expect([store.conversations.error, backend.chats.kept.size]).toEqual([null, 1]);
});

test('undoing a deletion restores all messages', async () => {
  backend.chats.put('a', 'First', 1, [newMessage('user', 'one')]);
  backend.chats.put('b', 'Second', 2, [newMessage('user', 'two')]);
  const store = await page();
  expect(store.open?.id).toBe('b');
  await store.conversations.remove(store.conversations.all[1]!); // it was never opened
  expect([titles(store), [...backend.chats.kept.keys()]]).toEqual([['Second'], ['b']]);
  store.conversations.undoRemove();
  await pass(0);
  expect([titles(store), said(store), onDisk('a')?.[0]?.content]).toEqual([
    ['Second', 'First'],
    ['one'],
    'one',
  ]);
});

test('a conversation can be deleted during an answer', async () => {
  const [store, other] = [await page(), await page()];
  void store.send('Hello', 'm');
  await pass(60);
  expect(titles(other)).toEqual(['Hello']);
  await store.conversations.remove(store.open!);
  await pass(5000);
  expect([backend.chats.kept.size, titles(store), titles(other)]).toEqual([0, [], []]);
});

test('a write that is running during the deletion does not restore the conversation', async () => {
  const store = await page();
  const write = backend.chats.write.bind(backend.chats);
  backend.chats.write = async (id, change) => {
    await new Promise((resolve) => setTimeout(resolve, 500)); // a slow disk
    return write(id, change);
  };
  void store.send('Hello', 'm');
  await pass(100);
  void store.conversations.remove(store.open!);
  await pass(5000);
  expect([backend.chats.kept.size, titles(store), store.conversations.removed?.title]).toEqual([
    0,
    [],
    'Hello',
  ]);
});

test('a new title is written without the messages, even if they are not loaded', async () => {
  backend.chats.put('a', 'First', 1, [newMessage('user', 'one')]);
  backend.chats.put('b', 'Second', 2, [newMessage('user', 'two')]);
  const store = await page();
  store.conversations.rename(store.conversations.all[1]!, '  Other ');
  store.conversations.rename(store.conversations.all[0]!, ' ');
  await pass(0);
  expect(titles(store)).toEqual(['Second', 'Other']);
  expect(backend.chats.writes).toMatchObject([
    { id: 'a', change: { title: 'Other', from: 1, messages: [] } },
  ]);
  expect(onDisk('a')).toHaveLength(1);
});

test('a damaged conversation is shown, and continuing it starts a copy', async () => {
  backend.chats.put('a', 'Broken', 1, [newMessage('user', 'one')], 'it ends early');
  const store = await page();
  expect([store.open?.damage, said(store)]).toEqual(['it ends early', ['one']]);
  await ask(store, 'Go on');
  expect(titles(store)).toEqual(['Broken (copy)', 'Broken']);
  expect(store.open?.messages).toHaveLength(3);
  expect([onDisk('a')?.length, onDisk(store.open!.id)?.length]).toEqual([1, 3]);
});

test('a branch continues from an answer, and the original stays unchanged', async () => {
  const store = await page();
  await ask(store, 'One');
  await ask(store, 'Two');
  const before = store.open!;
  store.branch(before.messages[1]!.id);
  await pass(0);
  expect(titles(store)).toEqual(['One (branch)', 'One']);
  expect([
    store.open?.messages.length,
    before.messages.length,
    onDisk(store.open!.id)?.length,
  ]).toEqual([2, 4, 2]);
});

test('the search looks in messages, shortly after the last key', async () => {
  backend.chats.put('a', 'Lisbon', 1, [newMessage('user', 'a week by train')]);
  backend.chats.put('b', 'Cooking', 2, [newMessage('user', 'apples')]);
  const store = await page();
  const shown = () => store.conversations.shown.map(({ title }) => title);
  store.conversations.search('tra');
  store.conversations.search('TRAIN lisbon');
  expect(shown()).toEqual(['Cooking', 'Lisbon']);
  await pass(200);
  expect([shown(), store.conversations.found?.get('a')]).toEqual([['Lisbon'], 'a week by train']);
  store.conversations.search('');
  expect(shown()).toEqual(['Cooking', 'Lisbon']);
});

test("conversations in this browser's storage move to the disk, once", async () => {
  const old = (id: string, updatedAt: number) => ({
    id,
    title: `Old ${id}`,
    updatedAt,
    messages: [newMessage('user', id)],
  });
  localStorage.setItem(
    storageKey,
    JSON.stringify([old('a', 1), old('Strange/../Name', 3), { ...old('empty', 4), messages: [] }]),
  );
  backend.chats.put('b', 'New', 2, []);
  const store = await page();
  await pass(0);
  expect(titles(store)).toEqual(['Old Strange/../Name', 'New', 'Old a']);
  expect([backend.chats.kept.size, localStorage.getItem(storageKey)]).toEqual([3, null]);
  await store.conversations.remove(store.conversations.all[0]!);
  expect(titles(await page())).toEqual(['New', 'Old a']);
});

test('conversations that cannot move stay in the browser', async () => {
  localStorage.setItem(
    storageKey,
    JSON.stringify([{ id: 'a', title: 'Old', updatedAt: 1, messages: [newMessage('user', 'x')] }]),
  );
  backend.chats.write = () =>
    Promise.reject(new HeadroomError({ code: 'disk_full', message: 'Full.', why: '', fix: '' }));
  const store = await page();
  await pass(0);
  expect([
    titles(store),
    store.conversations.error?.code,
    localStorage.getItem(storageKey) !== null,
  ]).toEqual([['Old'], 'disk_full', true]);
});

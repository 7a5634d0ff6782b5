// What a chat is answered with: system prompt, presets, model, attachments; and its versions.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { FakeBackend } from '../backend/fake';
import { ChatStore } from './chat.svelte';

let backend: FakeBackend;
let store: ChatStore;

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

beforeEach(async () => {
  vi.useFakeTimers({ now: 1_000_000 });
  localStorage.clear();
  backend = new FakeBackend(10);
  store = new ChatStore(backend, localStorage);
  await store.conversations.refresh();
});

afterEach(() => vi.useRealTimers());

/** Another page, with the first conversation of the list open. */
async function elsewhere(): Promise<ChatStore> {
  const other = new ChatStore(backend, localStorage);
  await other.conversations.refresh();
  await pass(10);
  return other;
}

async function ask(question: string) {
  void store.send(question, 'm');
  await pass(3000);
}

test('a system prompt goes first with every question, and is stored with its chat', async () => {
  store.changeSetup({ prompt: 'Be brief.' });
  await ask('One');
  expect(backend.asked[0]?.messages[0]).toEqual({ role: 'system', content: 'Be brief.' });
  store.changeSetup({ prompt: 'Be long.', model: 'other' });
  await pass(100);
  expect((await elsewhere()).setup).toMatchObject({ prompt: 'Be long.', model: 'other' });
  store.startNew();
  expect(store.setup).toMatchObject({ prompt: '', model: 'other' });
  await ask('Two');
  expect(backend.asked[1]?.messages).toEqual([{ role: 'user', content: 'Two' }]);
});

test('renaming a chat that is not loaded keeps its setup', async () => {
  store.changeSetup({ prompt: 'Be brief.' });
  await ask('One');
  store.startNew();
  await ask('Two');
  const other = await elsewhere();
  const first = other.conversations.all.find(({ title }) => title === 'One')!;
  expect(first.loaded).toBe(false);
  other.conversations.rename(first, 'Uno');
  await pass(100);
  await other.conversations.read(first);
  expect(first).toMatchObject({ title: 'Uno', setup: { prompt: 'Be brief.' } });
});

test('a preset has a prompt and sampling values, and belongs to its chat alone', async () => {
  store.changeSetup({ prompt: 'Translate.' });
  store.setSampling({ temperature: 0.1 });
  store.savePreset('Translator');
  await ask('One');
  store.startNew();
  store.setSampling({});
  await ask('Two');
  expect(backend.asked.map(({ sampling }) => sampling)).toEqual([{ temperature: 0.1 }, {}]);
  store.usePreset('Translator');
  await ask('Three');
  expect(backend.asked[2]).toMatchObject({
    sampling: { temperature: 0.1 },
    messages: [{ role: 'system', content: 'Translate.' }, {}, {}, {}],
  });
  const other = await elsewhere();
  expect(other.presets.map(({ name }) => name)).toEqual(['Translator']);
  expect(other.setup).toMatchObject({ preset: 'Translator', sampling: { temperature: 0.1 } });
  store.removePreset('Translator');
  expect([store.presets, store.setup.prompt, store.setup.preset]).toEqual([[], 'Translate.', '']);
  store.usePreset('');
  expect(store.setup).toMatchObject({ prompt: '', sampling: null });
});

test('attached files go before the question, and are stored with it', async () => {
  void store.send('', 'm', [{ name: 'notes.md', text: 'Buy milk.', pages: 0 }]);
  await pass(3000);
  expect(backend.asked[0]?.messages[0]?.content).toBe('<file name="notes.md">\nBuy milk.\n</file>');
  const other = await elsewhere();
  expect(other.open).toMatchObject({
    title: 'notes.md',
    messages: [{ attachments: [{ name: 'notes.md', text: 'Buy milk.', pages: 0 }] }, {}],
  });
  void store.edit(store.open!.messages[0]!.id, 'Sum up.', 'm');
  await pass(3000);
  expect(backend.asked[1]?.messages[0]?.content).toMatch(/<\/file>\n\nSum up\.$/);
});

test('an answer of another model keeps the one before; both are stored', async () => {
  await ask('One');
  void store.retry(store.open!.messages[1]!.id, 'other');
  await pass(3000);
  const answer = () => store.open!.messages[1]!;
  expect(answer()).toMatchObject({ model: 'other', version: 1, others: [[{ model: 'm' }]] });
  store.showVersion(answer().id, 0);
  expect(answer()).toMatchObject({ model: 'm', version: 0, others: [[{ model: 'other' }]] });
  store.showVersion(answer().id, 5);
  store.showVersion(answer().id, -1);
  await pass(100);
  const other = await elsewhere();
  expect(other.open!.messages[1]).toMatchObject({
    model: 'm',
    version: 0,
    others: [[{ model: 'other', role: 'assistant' }]],
  });
  expect(backend.asked.at(-1)?.messages).toEqual([{ role: 'user', content: 'One' }]);
});

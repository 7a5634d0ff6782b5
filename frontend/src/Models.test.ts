// Tests the Models page with the fake backend, as a user sees and operates it.
import { flushSync, mount, unmount } from 'svelte';
import { afterEach, expect, test } from 'vitest';
import Arrivals from './components/models/Arrivals.svelte';
import Need from './components/models/Need.svelte';
import { HeadroomError } from './lib/backend/backend';
import { FakeBackend, fakeModel } from './lib/backend/fake';
import { EngineStore } from './lib/stores/engine.svelte';
import Models from './views/Models.svelte';
import { pass, testPage } from './testpage';
import { needSentence } from './lib/figures';
import { choices, needText, ordered } from './lib/models';
import { inOrder } from './inorder';

const openPage = testPage(Models, (engine) => ({ engine }));
let backend: FakeBackend;
let engine: EngineStore;
let pages: Record<string, unknown>[] = [];

afterEach(() => {
  for (const page of pages.splice(0)) void unmount(page);
});

async function open(change?: (backend: FakeBackend) => void) {
  ({ backend, engine } = await openPage(change));
}

const text = (selector: string, within: ParentNode = document) =>
  within.querySelector(selector)?.textContent?.replace(/\s+/g, ' ').trim() ?? '';
const rows = () => [...document.querySelectorAll('[data-testid="model"]')];
const names = () => rows().map((row) => text('.words', row));
const details = () => text('[data-testid="model-details"]');

function button(name: RegExp, within: ParentNode = document): HTMLButtonElement {
  const label = (element: Element) =>
    element.getAttribute('aria-label') ?? element.textContent?.replace(/\s+/g, ' ').trim() ?? '';
  const found = [...within.querySelectorAll('button')].find((element) => name.test(label(element)));
  if (!found) throw new Error(`no button ${name}`);
  return found;
}

async function click(name: RegExp, within?: ParentNode) {
  button(name, within).click();
  await pass(10);
}

async function choose(name: string) {
  [...document.querySelectorAll<HTMLElement>('td.name button')]
    .find((element) => element.textContent?.includes(name))!
    .click();
  await pass(10);
}

async function fill(selector: string, value: string, event = 'input') {
  const field = document.querySelector<HTMLInputElement>(selector)!;
  field.value = value;
  field.dispatchEvent(new Event(event, { bubbles: true }));
  await pass(10);
}

test('what runs comes first, then what fits; what cannot be used is folded', async () => {
  await open();
  expect(names()).toEqual([
    'Headroom demo',
    'Qwen3.5-9B-4bit',
    'Qwen3.6-35B-A3B',
    'gemma-3-27b-it-4bit',
  ]);
  expect(rows().map((row) => text('.need .words', row))).toEqual([
    '~307 MB Running',
    '~7.2 GB Fits',
    '~19.4 GB Does not fit',
    'Downloading, 36 %',
  ]);
  expect(rows().map((row) => text('td.parameters', row))).toEqual(['20M', '9.1B', '34.7B', '–']);
  expect(text('header p.quiet')).toBe(
    '5 models, 15.5 GB available after unloading headroom-demo Pause watching',
  );
  expect(
    [...document.querySelectorAll('td.actions button')].map((element) =>
      element.getAttribute('aria-label'),
    ),
  ).toEqual(['Unload: Headroom demo', 'Start: Qwen3.5-9B-4bit']);
  await click(/^Show 1 unsupported or damaged$/);
  expect(names().at(-1)).toBe('llama3.2:3b');
  expect(text('.need .words', rows().at(-1))).toBe('Unsupported');
  // The reason needs no click.
  expect(text('td.name', rows().at(-1))).toMatch(/Ollama's format/);
  await click(/^Hide 1 unsupported or damaged$/);
  expect(rows()).toHaveLength(4);
  await fill('input[type="search"]', 'llama3.2');
  expect(names()).toEqual(['llama3.2:3b']);
});

test('a need for less than the usual context says for how much it is', () => {
  const need = (model: object, chosenTokens: number) => {
    const target = document.createElement('div');
    const large = fakeModel({ contextTokens: 262144, needBytes: 19.4 * 2 ** 30, ...model });
    const props = { model: large, roomBytes: 20 * 2 ** 30, now: 0, contextTokens: chosenTokens };
    pages.push(mount(Need, { target, props }));
    flushSync();
    return text('.words', target);
  };
  const at = (contextTokens: number) => ({ need: { ...fakeModel({}).need, contextTokens } });
  expect(need(at(22592), 0)).toBe('~19.4 GB at 22K Fits');
  expect(need(at(262144), 0)).toBe('~19.4 GB Fits');
  expect(need(at(8192), 8192)).toBe('~19.4 GB Fits');
  expect(need({ ...at(40960), contextTokens: 40960 }, 131072)).toBe('~19.4 GB at 40K Fits');
  const small = fakeModel({ ...at(22592), contextTokens: 40960, needBytes: 7 * 2 ** 30 });
  expect(needText(small, 2 ** 34)).toBe('Needs ~7.0 GB for 22,592 tokens, 16.0 GB available');
  expect(needSentence(small, 2 ** 34)).toBe(
    'It needs ~7.0 GB for 22,592 tokens, of 16.0 GB available.',
  );
});

test('a list to choose from has 200 models, the running and the chosen one among them', () => {
  const many = Array.from({ length: 1000 }, (_, i) =>
    fakeModel({ id: `m${i}`, name: `m${i}`, loaded: i === 999 }),
  );
  const shown = choices(many, 'm998').map(({ id }) => id);
  expect(shown).toHaveLength(201);
  expect(shown.slice(-2)).toEqual(['m998', 'm999']);
  expect(shown.slice(0, 2)).toEqual(['m0', 'm1']);
  expect(choices(many.slice(0, 200))).toHaveLength(200);
});

test('of the models that fit, the one used last comes first', () => {
  const model = (name: string, change: object = {}) => fakeModel({ id: name, name, ...change });
  const models = [
    model('broken', { state: 'broken', error: 'e' }),
    model('part', { state: 'downloading', error: 'e' }),
    model('large', { fits: 'no' }),
    model('tight', { fits: 'tight' }),
    model('a'),
    model('b'),
    model('c'),
    model('running', { loaded: true }),
  ];
  const used = new Map([
    ['b', 2],
    ['c', 3],
  ]);
  expect(ordered(models, { column: 'use', down: false }, used).map(({ name }) => name)).toEqual([
    'running',
    'c',
    'b',
    'a',
    'tight',
    'large',
    'part',
    'broken',
  ]);
});

test('models are searched, filtered and sorted', async () => {
  await open();
  await fill('input[type="search"]', 'QWEN lmstudio');
  expect(names()).toEqual(['Qwen3.5-9B-4bit']);
  await fill('input[type="search"]', 'nothing like it');
  expect(text('.none')).toMatch(/^No models match/);
  await click(/^Show all$/);
  await fill('select[aria-label="Which models"]', 'fits', 'change');
  expect(names()).toEqual(['Headroom demo', 'Qwen3.5-9B-4bit']);
  await fill('select[aria-label="Which models"]', 'all', 'change');
  await click(/^↑?Size|^Size/, document.querySelector('thead')!);
  expect(names()[0]).toBe('Qwen3.6-35B-A3B');
  expect(document.querySelector('th.size')?.getAttribute('aria-sort')).toBe('descending');
});

test('one click starts a model, a second click unloads it', async () => {
  await open();
  await click(/^Start: Qwen3\.5-9B/);
  expect(backend.calls).toEqual(['start mlx-community/Qwen3.5-9B-4bit']);
  await pass(3000);
  expect(button(/^Unload/).getAttribute('aria-label')).toBe('Unload: Qwen3.5-9B-4bit');
  await click(/^Unload/);
  await pass(3000);
  expect(backend.calls.at(-1)).toBe('stop mlx-community/Qwen3.5-9B-4bit');
  expect(() => button(/^Unload/)).toThrow();
});

test('a model that a request loads beside another can be unloaded', async () => {
  await open();
  const id = 'mlx-community/Qwen3.5-9B-4bit';
  const other = { ...backend.state.engine, model: id };
  backend.beside = [other];
  backend.set(() => {});
  await pass(1000);
  expect(() => button(/^Unload: Qwen3\.5-9B/)).not.toThrow();
  const read = backend.lists.length;
  other.status = 'busy';
  backend.set(() => {});
  await pass(3000);
  expect(backend.lists).toHaveLength(read);
  backend.beside = [];
  backend.set(() => {});
  await pass(1000);
  expect(() => button(/^Unload: Qwen3\.5-9B/)).toThrow();
});

test('memory needs are computed for the chosen context length', async () => {
  await open();
  await fill('.context select', '131072', 'change');
  expect(backend.lists.at(-1)).toBe(131072);
  expect(text('.need .words', rows()[1])).toBe('~8.4 GB Fits');
  await choose('Qwen3.5-9B');
  expect(details()).toMatch(/Needs at 131,072 ?~8\.4 GB/);
});

test('the details show the error, the missing files and the location', async () => {
  await open();
  await choose('Qwen3.6-35B');
  expect(details()).toMatch(
    inOrder(
      /Does not fit\. Needs ~19\.4 GB, 15\.5 GB available\./,
      /34\.7B \(34,700,000,000\)/,
      /18\.6 GB/,
      /262,144 tokens/,
    ),
  );
  expect(button(/^Start$/).disabled).toBe(true);
  await choose('gemma-3');
  expect(details()).toMatch(
    inOrder(
      /The model is not complete yet: 1 file is missing /,
      /6\.1 GB of 16\.9 GB downloaded/,
      /2 files are incomplete/,
      /00002-of-00003\.safetensors, partial/,
      /00003-of-00003\.safetensors, missing/,
    ),
  );
  await click(/^Show 1 unsupported/);
  await choose('llama3.2');
  expect(details()).toMatch(
    /Unsupported\. This model is in Ollama's format: Headroom runs \.safetensors\./,
  );
  expect(() => button(/^Move to Trash/)).toThrow();
});

test('by keys: letters go to a name, Delete asks, Escape closes the details', async () => {
  await open();
  const stops = [...document.querySelectorAll<HTMLElement>('td.name button')];
  const nameAt = () => document.activeElement?.querySelector('.words')?.textContent ?? '';
  const key = async (name: string) => {
    (document.activeElement ?? document.body).dispatchEvent(
      new KeyboardEvent('keydown', { key: name, bubbles: true, cancelable: true }),
    );
    await pass(10);
  };
  stops[0]!.focus();
  const wanted = names().at(-1)!;
  for (const letter of wanted) await key(letter);
  expect(nameAt()).toBe(wanted);
  const removable = names().findIndex((one) => /qwen/i.test(one));
  stops[removable]!.focus();
  await key('Delete');
  expect(text('dialog h2')).toMatch(/Trash/);
  document.querySelector('dialog')!.dispatchEvent(new Event('cancel', { cancelable: true }));
  await pass(10);
  expect(details()).not.toBe('');
  await key('Escape');
  expect(details()).toBe('');
});

test('moving a copy to the Trash asks first and shows its size', async () => {
  await open();
  await choose('Qwen3.5-9B');
  expect(details()).toMatch(/2 copies Hugging Face cache .*LM Studio/);
  await click(/^Move to Trash: .*lmstudio/);
  expect(text('dialog')).toMatch(
    /^Move Qwen3\.5-9B-4bit to the Trash\? 5\.1 GB in .*lmstudio.* The other copy stays\./,
  );
  await click(/^Cancel$/, document.querySelector('dialog')!);
  expect(backend.calls).toEqual([]);
  await click(/^Move to Trash: .*lmstudio/);
  await click(/^Move to Trash$/, document.querySelector('dialog')!);
  expect(backend.calls).toEqual([
    'remove mlx-community/Qwen3.5-9B-4bit /home/you/.lmstudio/models/mlx-community/Qwen3.5-9B-4bit',
  ]);
  await pass(2000);
  expect(names()).not.toContain('Qwen3.5-9B-4bit');
  expect(text('header [role="status"]')).toMatch(/^Qwen3\.5-9B-4bit was moved to the Trash\./);
  await choose('Headroom demo');
  expect(details()).toMatch(/Included with Headroom/);
  await choose('Qwen3.6-35B');
  await click(/^Show in folder/);
  expect(backend.calls.at(-1)).toBe('reveal qwen3.6-35b-a3b /home/you/models/qwen3.6-35b-a3b');
});

test('changed settings are saved at once and can be undone; a reload is offered', async () => {
  await open(
    (b) =>
      (b.options['headroom-demo'] = { settings: { kvFormat: 'q8_0' }, readOnly: ['maxSequences'] }),
  );
  await choose('Headroom demo');
  expect(document.querySelector<HTMLInputElement>('#option-streams')!.disabled).toBe(true);
  expect(
    document.querySelector<HTMLSelectElement>('#option-kv')!.selectedOptions[0]?.textContent,
  ).toBe('q8_0');
  await fill('#option-context', '16,384', 'change');
  expect(backend.calls.at(-1)).toBe(
    'settings headroom-demo {"kvFormat":"q8_0","contextTokens":16384}',
  );
  expect(details()).toMatch(/Applies when the model is reloaded\. Reload now/);
  await click(/^Undo$/);
  expect(backend.calls.at(-1)).toBe('settings headroom-demo {"kvFormat":"q8_0"}');
  await fill('#option-kv', '1', 'change');
  expect(backend.calls.at(-1)).toBe(
    'settings headroom-demo {"kvFormat":"affine","kvBits":"(8, 8)"}',
  );
  await fill('#option-context', 'many', 'change');
  expect(backend.calls.filter((call) => call.startsWith('settings'))).toHaveLength(3);
  await click(/^Reload now$/);
  await pass(1000);
  expect(backend.calls.slice(-2)).toEqual(['stop headroom-demo', 'start headroom-demo']);
});

test('a model can be kept loaded, and have other names and an idle time', async () => {
  await open();
  await choose('Headroom demo');
  document.querySelector<HTMLInputElement>('#option-pinned')!.click();
  await pass(10);
  expect(backend.calls.at(-1)).toBe('settings headroom-demo {"pinned":true}');
  expect(details()).toMatch(/Applies from the next request\./);
  await fill('#option-aliases', ' gpt-4o, ,other', 'change');
  expect(backend.calls.at(-1)).toBe(
    'settings headroom-demo {"pinned":true,"aliases":["gpt-4o","other"]}',
  );
  await fill('#option-idle', '0', 'change');
  expect(backend.options['headroom-demo']?.settings.idleUnloadMinutes).toBe(0);
  await fill('#option-idle', '', 'change');
  expect(backend.calls.at(-1)).toBe(
    'settings headroom-demo {"pinned":true,"aliases":["gpt-4o","other"]}',
  );
});

test('request defaults apply at once, and invalid values show an error', async () => {
  await open();
  await choose('Headroom demo');
  await fill('#option-temperature', '0.6', 'change');
  expect(backend.calls.at(-1)).toBe('settings headroom-demo {"temperature":0.6}');
  expect(details()).toMatch(/Saved\. Applies from the next request\. Undo/);
  await fill('#option-arguments', '{"enable_thinking": false}', 'change');
  expect(backend.calls.at(-1)).toBe(
    'settings headroom-demo {"temperature":0.6,"templateArguments":{"enable_thinking":false}}',
  );
  await fill('#option-arguments', '[1]', 'change');
  await fill('#option-topP', '7', 'change');
  expect(text('#option-arguments-help')).toMatch(/^Enter a JSON object/);
  expect(text('#option-topP-help')).toBe('A number, 0 to 1.');
  await fill('#option-temperature', '', 'change');
  expect(backend.calls.at(-1)).toBe(
    'settings headroom-demo {"templateArguments":{"enable_thinking":false}}',
  );
});

test('without models, the page offers three models that fit for download', async () => {
  await open((b) => (b.found = b.found.filter((model) => model.bundled)));
  const offered = [...document.querySelectorAll('[data-testid="suggestion"]')];
  expect(offered).toHaveLength(3);
  await click(/^Download mlx-community\/Qwen3-14B-4bit$/);
  expect(backend.calls).toContain('download mlx-community/Qwen3-14B-4bit');
});

test('an action that the server refuses says what to do', async () => {
  await open();
  backend.nextError = new HeadroomError({
    code: 'bad_request',
    message: 'What.',
    why: 'Why.',
    fix: 'Fix.',
  });
  await click(/^Rescan/);
  expect(text('[role="alert"]')).toMatch(/^What\. Why\. Fix\./);
  await click(/^Dismiss/);
  expect(document.querySelector('[role="alert"]')).toBeNull();
});

test('a finished download is announced, and one click starts the model', async () => {
  await open();
  let shown = 0;
  pages.push(mount(Arrivals, { target: document.body, props: { engine, onshow: () => shown++ } }));
  const done = fakeModel({ id: 'org/new', name: 'new', sizeBytes: 3e9, needBytes: 4 * 2 ** 30 });
  backend.setModels(
    [...backend.found, done],
    [
      { kind: 'appeared', id: 'org/other', state: 'downloading' },
      { kind: 'finished', id: 'org/new', state: 'ready' },
    ],
  );
  await pass(2000);
  expect(text('[data-testid="arrival"]')).toBe(
    'new is ready Verified. Needs ~4.0 GB, 15.5 GB available. Start Show',
  );
  await click(/^Show$/, document.querySelector('[data-testid="arrival"]')!);
  expect([shown, engine.models.selected]).toEqual([1, 'org/new']);
  expect(document.querySelector('[data-testid="arrival"]')).toBeNull();
  backend.setModels(backend.found, [{ kind: 'finished', id: 'org/new', state: 'ready' }]);
  await pass(2000);
  await click(/^Start$/, document.querySelector('[data-testid="arrival"]')!);
  expect(backend.calls).toEqual(['start org/new']);
});

test('with 1,000 models only a few dozen rows are rendered', async () => {
  await open(
    (b) =>
      (b.found = Array.from({ length: 1000 }, (_, i) =>
        fakeModel({ id: `org/model-${i}`, name: `model-${i}`, sizeBytes: i * 1e6 }),
      )),
  );
  expect(document.querySelector('table')?.getAttribute('aria-rowcount')).toBe('1001');
  expect(rows().length).toBeLessThan(60);
  await click(/Size/, document.querySelector('thead')!);
  expect(names()[0]).toBe('model-999');
  await fill('input[type="search"]', 'model-123');
  expect(names()).toEqual(['model-123']);
});

test('a changed model reloads the list, with pauses between loads', async () => {
  await open();
  expect(backend.lists).toEqual([0]);
  for (let i = 0; i < 8; i++) {
    backend.set((state) => state.modelsVersion++);
    await pass(250);
  }
  expect(backend.lists.length).toBeLessThanOrEqual(4);
  await pass(3000);
  const settled = backend.lists.length;
  backend.set((state) => (state.roomBytes *= 1.01));
  await pass(30_000);
  expect(backend.lists).toHaveLength(settled);
  backend.set((state) => (state.roomBytes *= 1.2));
  await pass(10);
  expect(backend.lists).toHaveLength(settled + 1);
});

test('with only the demo model, the page names the watched folders', async () => {
  await open((b) => (b.found = b.found.slice(0, 1)));
  expect(text('.empty')).toMatch(/^Only the demo model is here .*\.cache\/huggingface\/hub/);
});

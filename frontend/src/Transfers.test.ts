// Tests import and download on the Models page with the fake backend, as a user operates them.
import { flushSync, unmount } from 'svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { HeadroomError } from './lib/backend/backend';
import { FakeBackend, fakeJob, fakeModel, fakeState, hubModel } from './lib/backend/fake';
import { fakeTraining } from './lib/backend/fake/trainings';
import type { ImportItem } from './lib/backend/transfers';
import { EngineStore } from './lib/stores/engine.svelte';
import { itemText, jobText } from './lib/transfers';
import { mountApp, pass } from './testpage';

let backend: FakeBackend;
let engine: EngineStore;
let page: Record<string, unknown> | null = null;
let dropped: ((x: number, y: number, paths: string[]) => void) | null = null;

beforeEach(() => {
  vi.useFakeTimers();
  location.hash = '';
});

afterEach(() => {
  if (page) void unmount(page);
  page = null;
  engine.close();
  dropped = null;
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function open(change: (backend: FakeBackend) => void = () => {}) {
  backend = new FakeBackend(0, fakeState(Date.now()));
  change(backend);
  engine = new EngineStore(backend);
  localStorage.clear();
  const { app, router } = mountApp(backend, engine);
  page = app;
  router.go('models');
  await pass(10);
}

const text = (selector: string, within: ParentNode = document) =>
  within.querySelector(selector)?.textContent?.replace(/\s+/g, ' ').trim() ?? '';
const all = (testid: string) => [
  ...document.querySelectorAll<HTMLElement>(`[data-testid="${testid}"]`),
];
const acts = () => backend.calls.filter((call) => !/^(conversations|hub$)/.test(call));

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

async function fill(label: string, value: string) {
  const field = document.querySelector<HTMLInputElement>(`[aria-label="${label}"]`)!;
  field.value = value;
  field.dispatchEvent(new Event('input', { bubbles: true }));
  flushSync();
  field.form!.requestSubmit();
  await pass(10);
}

test('a GGUF file in the list is converted by an import', async () => {
  await open((b) => {
    b.found = [
      fakeModel({
        id: 'small',
        name: 'small',
        path: '/home/you/models/small.gguf',
        state: 'not_loadable',
        error: 'This model is in GGUF format',
        convertible: true,
      }),
    ];
  });
  await click(/unsupported/i);
  await click(/^Convert to MLX: small$/);
  expect(all('import-item').map((item) => item.textContent?.replace(/\s+/g, ' ').trim())).toEqual([
    'small.gguf 18.6 GB, converted to MLX; the GGUF file stays',
  ]);
  expect(document.querySelector('input[value="move"]')).toBeNull();
  await click(/^Convert 1 model, 18.6 GB$/, document.querySelector('dialog')!);
  expect(acts()).toContain('import copy /home/you/models/small.gguf');
});

test('a model is packed in another way, after its size and its need were shown', async () => {
  await open((b) => {
    b.found = [fakeModel({ id: 'org/Qwen3-x', name: 'Qwen3-x', path: '/home/you/models/Qwen3-x' })];
  });
  await click(/^Qwen3-x/, document.querySelector('[data-testid="model"]')!);
  await click(/^Convert to another quantization: /);
  const dialog = document.querySelector('dialog')!;
  const conversion = () => text('[data-testid="conversion"]', dialog);
  expect(text('h2', dialog)).toMatch(/^Convert Qwen3/);
  const plans = () => acts().filter((call) => call.startsWith('plan conversion')).length;
  expect(plans()).toBe(1);
  expect(conversion()).toMatch(/^The result has 4\.0 GB; the model has 11.4 MB and stays\./);
  expect(conversion()).toMatch(
    /(Fits|Tight|Does not fit): needs ~[\d.]+ GB, [\d.]+ GB available\./,
  );
  expect(conversion()).toContain('Into /home/you/models, 212.0 GB free.');
  const choose = async (id: string, value: string) => {
    const field = dialog.querySelector<HTMLSelectElement>(`#${id}`)!;
    field.value = value;
    field.dispatchEvent(new Event('change', { bubbles: true }));
    await pass(10);
  };
  await choose('convert-bits', '6');
  expect(conversion()).toContain('The result has 6.0 GB');
  expect(plans()).toBe(2);
  await choose('convert-mode', 'mxfp4');
  expect(dialog.querySelector<HTMLSelectElement>('#convert-group')!.disabled).toBe(true);
  expect(conversion()).toContain('The result has 4.0 GB');
  const name = dialog.querySelector<HTMLInputElement>('#convert-name')!;
  name.value = 'mine';
  name.dispatchEvent(new Event('input', { bubbles: true }));
  await pass(10);
  await click(/^Convert$/, dialog);
  expect(acts().at(-1)).toMatch(/^convert .* {"mode":"mxfp4","bits":4,"group":32} mine$/);
  expect(document.querySelector('dialog')).toBeNull();
  expect(text('[data-testid="job"] .title')).toBe('Importing mine');
});

test('a drop on any page shows a plan, whose mode can be changed before it starts', async () => {
  vi.stubGlobal('runtime', {
    OnFileDrop: (take: typeof dropped) => (dropped = take),
    OnFileDropOff: () => (dropped = null),
  });
  await open();
  dropped!(1, 2, ['/home/you/Downloads/Qwen', '/home/you/Downloads/other.zip']);
  await pass(10);
  expect(text('dialog h2')).toBe('Import');
  expect(all('import-item').map((item) => item.textContent?.replace(/\s+/g, ' ').trim())).toEqual([
    'Qwen 18.6 GB, copied',
    'other.zip other.zip is an archive. Unpack it, then import the folder that was in it.',
  ]);
  expect(text('dialog')).toContain('Into /home/you/models, 212.0 GB free.');
  expect(document.activeElement?.textContent?.trim()).toBe('Copy 1 model, 18.6 GB');
  const link = document.querySelector<HTMLInputElement>('input[value="link"]')!;
  link.focus();
  link.click();
  await pass(10);
  expect(text('dialog')).toContain('18.6 GB, linked: nothing is copied');
  expect(document.activeElement).toBe(link);
  await click(/^Link 1 model, 18\.6 GB$/);
  expect(document.querySelector('dialog')).toBeNull();
  expect(acts().slice(0, 2)).toEqual([
    'plan copy /home/you/Downloads/Qwen /home/you/Downloads/other.zip',
    'plan link /home/you/Downloads/Qwen /home/you/Downloads/other.zip',
  ]);
  expect(acts().at(-1)).toBe('import link /home/you/Downloads/Qwen /home/you/Downloads/other.zip');
  expect(text('[data-testid="job"] .title')).toBe('Importing Qwen');
  void unmount(page!);
  page = null;
  expect(dropped).toBeNull();
});

test('a path can be typed; an empty plan cannot be imported; a failed plan says why', async () => {
  await open();
  await click(/^Import…$/);
  expect(() => button(/^Choose…$/)).toThrow();
  await fill('Model folder', '/x/y.zip');
  expect(button(/^Import$/, document.querySelector('dialog')!).disabled).toBe(true);
  backend.nextError = new HeadroomError({
    code: 'internal',
    message: 'The plan failed',
    why: '',
    fix: 'Try again.',
  });
  await fill('Model folder', '/x/z');
  expect(text('dialog [role="alert"]')).toMatch(/^The plan failed\. Try again\./);
  await click(/^Cancel$/);
  expect(document.querySelector('dialog')).toBeNull();
  expect(document.querySelector('[role="alert"]')).toBeNull();
});

test("the window program's dialog chooses a folder", async () => {
  vi.stubGlobal('go', { main: { Dialogs: { ChooseFolder: async () => '/chosen' } } });
  await open();
  await click(/^Import…$/);
  await click(/^Choose…$/);
  expect(acts()).toEqual(['plan copy /chosen']);
});

test('a job shows progress, pauses and resumes; discarding it asks first', async () => {
  await open();
  const job = fakeJob({
    doneBytes: 3.2e9,
    bytesPerSecond: 42e6,
    secondsLeft: 366.4,
    phase: 'downloading',
    file: 'model.safetensors',
  });
  backend.transfers.set([job]);
  flushSync();
  expect(text('[data-testid="job"] .quiet')).toBe(
    '3.2 GB of 18.6 GB (17 %), 42.0 MB/s, 6 min 6 s left (downloading)',
  );
  expect(document.querySelector('progress')!.value).toBeCloseTo(3.2 / 18.6);
  await click(/^Stop$/);
  expect(text('[data-testid="job"] .quiet')).toBe('Paused at 3.2 GB of 18.6 GB (17 %)');
  await click(/^Resume$/);
  backend.transfers.set([
    {
      ...job,
      state: 'failed',
      error: {
        code: 'upstream',
        message: 'The hub cannot be reached',
        why: 'no route',
        fix: 'Check the connection, then resume: what was downloaded is kept.',
      },
    },
  ]);
  flushSync();
  expect(text('[data-testid="job"] [role="alert"]')).toBe(
    'The hub cannot be reached. No route. Check the connection, then resume: what was ' +
      'downloaded is kept.',
  );
  await click(/^Try again$/);
  await click(/^Discard: /);
  await click(/^Cancel$/);
  expect(acts()).toEqual(['stop download-1', 'resume download-1', 'resume download-1']);
  await click(/^Discard: /);
  expect(text('dialog')).toContain('The 3.2 GB downloaded so far will be deleted.');
  await click(/^Delete$/);
  expect(acts().at(-1)).toBe('remove download-1');
  expect(all('job')).toEqual([]);
  backend.transfers.set([{ ...job, state: 'done', doneBytes: 18.6e9, path: '/p' }]);
  flushSync();
  await click(/^Dismiss: /);
  expect(all('job')).toEqual([]);
});

test('finished jobs take one line, which opens, and are dismissed together', async () => {
  await open();
  const done = (id: string) => fakeJob({ id, title: id, state: 'done', doneBytes: 1e9 });
  backend.transfers.set([fakeJob({ title: 'running' }), done('one'), done('two'), done('three')]);
  flushSync();
  expect(all('job').map((job) => text('.title', job))).toEqual(['Downloading running']);
  expect(text('[data-testid="finished-jobs"]')).toBe('3 finished Dismiss all');
  await click(/^3 finished$/);
  expect(all('job')).toHaveLength(4);
  await click(/^Dismiss: two$/);
  expect(all('job')).toHaveLength(3);
  await click(/^Dismiss all$/);
  expect(all('job').map((job) => text('.title', job))).toEqual(['Downloading running']);
  expect(all('finished-jobs')).toEqual([]);
});

test('a failed action shows its error on the page', async () => {
  await open();
  backend.transfers.set([fakeJob()]);
  flushSync();
  backend.nextError = new HeadroomError({
    code: 'not_found',
    message: 'There is no job download-1',
    why: '',
    fix: '',
  });
  await click(/^Stop$/);
  expect(text('.error')).toMatch(/^There is no job download-1\./);
  await click(/^Dismiss$/);
  expect(document.querySelector('.error')).toBeNull();
});

const rowText = (row: Element) => row.textContent?.replace(/\s+/g, ' ').trim();

test('a search shows quantizations side by side; what cannot run is folded', async () => {
  await open();
  await click(/^Download…$/);
  expect(all('suggestion')).toHaveLength(3);
  await fill('Search Hugging Face', 'qwen');
  expect(all('suggestion')).toEqual([]);
  expect(all('found').map((row) => rowText(row.querySelector('.words')!))).toEqual([
    'Qwen3.6-35B-A3B mlx-community qwen3_5_moe, MLX, 50,000 downloads a month, licence apache-2.0',
    'Gated-8B makers qwen3, Hugging Face format, 1,000 downloads a month, licence llama3.1 ' +
      'Gated: accept its licence on Hugging Face first',
  ]);
  expect(all('choice').map(rowText)).toEqual([
    '3-bit, group 64 15.2 GB ~40 tok/s Needs ~15.1 GB Tight Files Download',
    '4-bit, group 64 19.5 GB ~40 tok/s Needs ~20.2 GB Does not fit Files Download',
    'As published – Need not known Files Download',
  ]);
  expect(all('found')[1]!.querySelector('a')!.href).toBe('https://huggingface.co/makers/Gated-8B');
  await click(/^Show 1 unsupported$/);
  expect(rowText(all('found')[2]!.querySelector('.words')!)).toMatch(/Not supported yet\.$/);
  await click(/^More quantizations of mlx-community/);
  expect(acts().at(-1)).toBe('search Qwen3.6-35B-A3B of mlx-community');
  expect(all('choice').map((row) => rowText(row)!.slice(0, 15))).toEqual([
    '3-bit, group 64',
    '4-bit, group 64',
    '8-bit, group 64',
    'As published – ',
  ]);
});

test('files are shown, chosen and downloaded; the button follows the download', async () => {
  await open();
  await click(/^Download…$/);
  await fill('Search Hugging Face', 'qwen');
  const id = 'mlx-community/Qwen3.6-35B-A3B-4bit';
  await click(new RegExp(`^Files of ${id}$`));
  const boxes = () => [...document.querySelectorAll<HTMLInputElement>('.files input')];
  expect(boxes().map(({ checked }) => checked)).toEqual([true, true, true, false]);
  boxes()[1]!.click();
  await pass(10);
  await click(/^Download 11\.0 MB$/);
  expect(acts().at(-1)).toBe(`download ${id} config.json tokenizer.json`);
  const row = () => rowText(all('choice')[1]!)!;
  expect(row()).toMatch(/ Downloading 0 %/);
  const [job] = backend.transfers.jobs;
  backend.transfers.set([{ ...job!, state: 'stopped' }]);
  flushSync();
  expect(row()).toMatch(/ Resume/);
  backend.transfers.set([]);
  backend.setModels([...backend.found, hubModel(id)], []);
  await pass(2000);
  expect(row()).toMatch(/ Installed Start/);
  await click(/^Download makers/);
  expect(acts().at(-1)).toBe('download makers/Gated-8B');
});

test('a search without a connection can be tried again', async () => {
  await open();
  await click(/^Download…$/);
  backend.nextError = new HeadroomError({
    code: 'upstream',
    message: 'Hugging Face cannot be reached',
    why: 'this computer seems to be offline',
    fix: 'Check your internet connection, then try again.',
    detail: 'dial tcp: no such host',
  });
  await fill('Search Hugging Face', 'qwen');
  expect(text('dialog [role="alert"]')).toBe(
    'Hugging Face cannot be reached. This computer seems to be offline. Check your internet ' +
      'connection, then try again. Try again Details upstream: dial tcp: no such host',
  );
  await click(/^Try again$/);
  expect(all('found')).not.toEqual([]);
  expect(document.querySelector('dialog [role="alert"]')).toBeNull();
});

test('a sheet opens in its field, and gives the focus back', async () => {
  await open();
  const opener = button(/^Download…$/);
  opener.focus();
  await click(/^Download…$/);
  expect(document.activeElement?.getAttribute('aria-label')).toBe('Search Hugging Face');
  await click(/^Close$/);
  expect(document.activeElement).toBe(opener);
});

test('what is under way shows in the sidebar of every page and in the Dock', async () => {
  const badges: string[] = [];
  vi.stubGlobal('go', { main: { Dock: { SetBadge: async (text: string) => badges.push(text) } } });
  await open();
  location.hash = '#page=overview';
  await pass(10);
  expect(all('sidebar-jobs')).toEqual([]);
  const job = fakeJob({ title: 'o/Qwen', doneBytes: 6.2e9, secondsLeft: 61 });
  backend.transfers.set([job]);
  flushSync();
  expect(text('[data-testid="sidebar-jobs"] .words')).toBe('Downloading Qwen 33 %, 1 min 1 s left');
  backend.transfers.set([job, fakeJob({ id: 'b', kind: 'import', state: 'waiting' })]);
  flushSync();
  expect(text('[data-testid="sidebar-jobs"] .words')).toBe('2 transfers 17 %, 1 min 1 s left');
  await click(/^2 transfers, 17 %$/);
  expect(location.hash).toContain('models');
  backend.transfers.set([{ ...job, state: 'stopped' }]);
  flushSync();
  expect(all('sidebar-jobs')).toEqual([]);
  expect(badges).toEqual(['', '33 %', '17 %', '']);
});

test('a training shows in the sidebar with its iterations, and leads to its page', async () => {
  await open();
  location.hash = '#page=overview';
  await pass(10);
  const training = fakeTraining({ iteration: 250 });
  const job = fakeJob({ kind: 'training', title: 'lamps', totalBytes: 0, secondsLeft: 61 });
  backend.transfers.set([{ ...job, training }]);
  flushSync();
  expect(text('[data-testid="sidebar-jobs"] .words')).toBe('Training lamps 25 %, 1 min 1 s left');
  await click(/^Training lamps: iteration 250 of 1,000, 25 percent\.$/);
  expect(location.hash).toContain('adapt');
  location.hash = '#page=models';
  await pass(10);
  expect(all('job')).toEqual([]);
});

test('a drop on the Adapt page is what to train with', async () => {
  vi.stubGlobal('runtime', {
    OnFileDrop: (take: typeof dropped) => (dropped = take),
    OnFileDropOff: () => (dropped = null),
  });
  await open();
  location.hash = '#page=adapt';
  await pass(10);
  dropped!(1, 2, ['/home/you/samples.jsonl']);
  await pass(10);
  expect(document.querySelector('dialog')).toBeNull();
  expect(document.querySelector<HTMLInputElement>('#adapt-data')?.value).toBe(
    '/home/you/samples.jsonl',
  );
});

test('an import of many folders begins with counts; what is here already is no fault', async () => {
  await open((b) => {
    const plain = b.transfers.item;
    b.transfers.item = (path, mode) => {
      const error = { code: 'bad_request', message: 'No', why: 'a reason', fix: '' };
      const refused = { ...plain(path, mode), error, writtenBytes: 0, path: '' };
      if (path.startsWith('/here')) return { ...refused, listed: 'o/m' };
      return path.startsWith('/bad') ? refused : plain(path, mode);
    };
  });
  void engine.transfers.planImport(['/bad1', '/here1', '/new1', '/bad2', '/new2', '/here2']);
  await pass(10);
  expect(text('[data-testid="import-summary"]')).toBe(
    '2 can be imported, 2 already here, 2 cannot.',
  );
  expect(all('import-item').map(rowText)).toEqual([
    'new1 18.6 GB, copied',
    'new2 18.6 GB, copied',
    'here1 Already here',
    'here2 Already here',
    'bad1 No. A reason.',
    'bad2 No. A reason.',
  ]);
  expect(document.querySelectorAll('dialog .why')).toHaveLength(2);
  expect(text('dialog details summary')).toBe('2 folders cannot be imported');
});

test('the token is saved and never shown; a mirror is saved', async () => {
  await open();
  await click(/^Download…$/);
  expect(text('details')).toContain('No token');
  await fill('Token', 'hf_abc');
  expect(text('details')).toContain('A token is stored in the system’s keychain.');
  expect(document.querySelector<HTMLInputElement>('[aria-label="Token"]')!.value).toBe('');
  await fill('Mirror address', 'https://mirror.example');
  expect(text('details')).toContain('Models are downloaded from https://mirror.example to');
  await click(/^Remove$/);
  expect(text('details')).toContain('No token');
  await click(/^Close$/);
});

test('a partial download without a job can be resumed', async () => {
  const part = {
    state: 'downloading' as const,
    error: 'incomplete',
    download: { doneBytes: 3e9, totalBytes: 9e9, missing: [], parts: [] },
  };
  const place = { id: 'o/left', path: '/hub', origin: 'huggingface' as const };
  await open((b) => {
    b.found = [
      fakeModel({
        id: 'o/left',
        name: 'left',
        ...part,
        places: [place],
        updatedAt: Date.now() - 120_000,
      }),
      fakeModel({
        id: 'o/moving',
        ...part,
        places: [{ ...place, id: 'o/moving' }],
        updatedAt: Date.now(),
      }),
      fakeModel({
        id: 'o/plain',
        ...part,
        places: [{ ...place, id: 'o/plain', origin: 'folder' }],
        updatedAt: 0,
      }),
    ];
  });
  const resumes = [...document.querySelectorAll('[aria-label^="Resume the download"]')];
  expect(resumes.map((one) => one.getAttribute('aria-label'))).toEqual([
    'Resume the download: left',
  ]);
  await click(/^Resume the download: left$/);
  expect(acts().at(-1)).toBe('download o/left');
  const row = () => all('model').filter((one) => rowText(one)?.startsWith('left'));
  expect(row()).toEqual([]);
  backend.transfers.set([]);
  flushSync();
  expect(row()).toHaveLength(1);
});

test('progress, items and plans are formatted as text', () => {
  const item: ImportItem = {
    name: 'm',
    source: '/from/m',
    path: '/to/m',
    bytes: 2e9,
    writtenBytes: 2e9,
    converts: false,
    clones: true,
    error: null,
    job: '',
    listed: '',
  };
  expect(itemText(item, 'copy')).toBe(
    '2.0 GB, copied; the copy can share disk space with the original',
  );
  expect(itemText({ ...item, writtenBytes: 0 }, 'move')).toBe(
    '2.0 GB, moved on one disk: nothing is written',
  );
  expect(itemText(item, 'link')).toBe('2.0 GB, linked: nothing is copied, and it stays in /from/m');
  expect(itemText({ ...item, converts: true }, 'copy')).toBe(
    '2.0 GB, converted to MLX; the GGUF file stays',
  );
  expect(jobText(fakeJob({ state: 'waiting' }))).toBe('Queued');
  expect(jobText(fakeJob({ state: 'running', totalBytes: 0, doneBytes: 5e6 }))).toBe('5.0 MB');
  expect(jobText(fakeJob({ state: 'done', doneBytes: 5e9 }))).toBe('5.0 GB, verified');
});

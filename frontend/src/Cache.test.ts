// Tests the Cache page with the fake backend, as a user sees and operates it.
import { flushSync } from 'svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { HeadroomError } from './lib/backend/backend';
import { FakeBackend, fakeCache, fakeConversation } from './lib/backend/fake';
import { CacheStore } from './lib/stores/cache.svelte';
import Cache from './views/Cache.svelte';
import { pass, testPage } from './testpage';
import { inOrder } from './inorder';

const openPage = testPage(Cache, (engine, backend) => ({
  engine,
  cache: new CacheStore(backend),
}));
let backend: FakeBackend;
let leave: () => void;

beforeEach(() => {
  vi.spyOn(HTMLElement.prototype, 'clientWidth', 'get').mockReturnValue(560); // of the map
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

async function open(change?: (backend: FakeBackend) => void) {
  ({ backend, leave } = await openPage(change));
}

const text = (selector: string) =>
  document.querySelector(selector)?.textContent?.replace(/\s+/g, ' ').trim() ?? '';
const rows = () =>
  [...document.querySelectorAll('[data-testid="cached-conversation"]')].map(
    (row) => row.querySelector('.words')?.textContent ?? '',
  );
const lists = () => backend.calls.filter((call) => call === 'conversations').length;

function button(name: RegExp, within: ParentNode = document): HTMLButtonElement {
  const label = (element: Element) =>
    element.getAttribute('aria-label') ?? element.textContent?.trim() ?? '';
  const found = [...within.querySelectorAll('button')].find((element) => name.test(label(element)));
  if (!found) throw new Error(`no button ${name}`);
  return found;
}

async function click(name: RegExp, within?: ParentNode) {
  button(name, within).click();
  await pass(10);
}

async function fill(selector: string, value: string, event = 'input') {
  const field = document.querySelector<HTMLInputElement>(selector)!;
  field.value = value;
  field.dispatchEvent(new Event(event, { bubbles: true }));
  await pass(10);
}

async function press(key: string) {
  document.activeElement!.dispatchEvent(
    new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }),
  );
  await pass(10);
}

test('the summary shows the figures of the cache and the wear of the drive', async () => {
  await open((b) => (b.state.cache = fakeCache({ writtenBytes: 24e9 })));
  expect(text('[aria-labelledby="cache-title"] header')).toBe('Disk cache 4.2 GB of 20.0 GB');
  expect(document.querySelector('[role="meter"]')?.getAttribute('aria-valuetext')).toBe(
    'The disk cache uses 4.2 GB of 20.0 GB, which is 21 %.',
  );
  expect(text('dl')).toMatch(
    inOrder(
      /Disk hits 48 times 84 % hit rate Saved by disk 31 min 40 s /,
      /Written today 1\.1 GB of 40\.0 GB/,
    ),
  );
  // 24 GB in 12 days, on a 494 GB drive that is assumed to endure 200 full writes.
  expect(text('[data-testid="wear"]')).toBe('Wear ~730.5 GB per year drive: ~135 years');
  expect(document.querySelector('[data-testid="wear"]')?.getAttribute('aria-description')).toMatch(
    /24\.0 GB written in 12 days\. Assumes .*200 full writes of its 494\.0 GB/,
  );
});

test('on the first day nothing is said of the lifetime of the drive', async () => {
  await open((b) => (b.state.cache = fakeCache({ writtenSince: Date.now() - 3_600_000 })));
  expect(text('[data-testid="wear"]')).toBe('Wear Too early to tell 12.0 GB written so far.');
});

test('map, table and details share the selection; the table is sorted and filtered', async () => {
  await open();
  expect(rows()[0]).toMatch(/^Refactor the scheduler/);
  await click(
    /^Translate the release notes into German, .*last used today/,
    document.querySelector('.map')!,
  );
  expect(text('tr.selected .words')).toBe('Translate the release notes into German');
  expect(text('[data-testid="details"]')).toMatch(
    inOrder(
      /^Translate the release notes/,
      /45,300 tokens In memory 45,000 of them/,
      /1 block, 1 partial block, 1 state/,
      /Unpin Delete$/,
    ),
  );
  await click(/Size/, document.querySelector('thead')!);
  expect(rows()[0]).toBe('Translate the release notes into German');
  expect(document.querySelector('th.bytes')?.getAttribute('aria-sort')).toBe('descending');
  await click(/Size/, document.querySelector('thead')!);
  expect(rows()[0]).toBe('Something just asked');
  await fill('input[type="search"]', 'demo LENTILS');
  expect(rows()).toEqual([]);
  expect(text('.tools')).toMatch(/0 of 41 conversations/);
  await fill('input[type="search"]', 'LENTILS qwen');
  expect(rows().every((row) => row.startsWith('A recipe for lentils'))).toBe(true);
});

test('a conversation in memory only is shown and cannot be deleted', async () => {
  await open((b) => (b.kept = b.kept.slice(-1)));
  expect(text('[data-testid="cached-conversation"]')).toMatch(
    /^Something just asked headroom-demo, in memory only512all in memory – – 0 –$/,
  );
  document.querySelector<HTMLElement>('td.title button')!.click();
  await pass(10);
  expect(text('[data-testid="details"]')).toMatch(/nothing yet; written shortly after the answer$/);
});

test('deleting asks first and shows the sizes', async () => {
  await open();
  await click(/^Delete from cache: Why does/);
  expect(text('dialog')).toMatch(
    inOrder(
      /^Delete this conversation from the cache\? “Why does the build fail on arm64\?”: 502 MB /,
      / Cancel Delete$/,
    ),
  );
  await click(/^Cancel/, document.querySelector('dialog')!);
  expect(document.querySelector('dialog')).toBeNull();
  expect(backend.calls.some((call) => call.startsWith('forget'))).toBe(false);
  await click(/^Delete from cache: Why does/);
  await click(/^Delete$/, document.querySelector('dialog')!);
  expect(backend.calls.filter((call) => call.startsWith('forget'))).toHaveLength(1);
  expect(rows()).not.toContain('Why does the build fail on arm64?');
  expect(text('.head [role="status"]')).toBe('Deleted 3 files, 502 MB, and 286 MB in memory.');
});

test('an old list says so, and is loaded again until the model answers', async () => {
  await open((b) => (b.silent = true));
  expect(text('[data-testid="stale"]')).toMatch(/^The model does not answer\. .*some time ago\.$/);
  expect(rows().length).toBeGreaterThan(5);
  await pass(10_000);
  expect(lists()).toBeGreaterThan(2);
  expect(lists()).toBeLessThan(8);
  backend.wake();
  await pass(5000);
  expect(text('[data-testid="stale"]')).toBe('');
  const settled = lists();
  await pass(30_000);
  expect(lists()).toBe(settled);
});

test('a removal that goes on says so until the list changes', async () => {
  await open((b) => (b.silent = true));
  await click(/^Delete from cache: Why does/);
  await click(/^Delete$/, document.querySelector('dialog')!);
  await pass(10_000);
  expect(text('[data-testid="removing"]')).toMatch(/^The removal goes on until /);
  expect(text('.head [role="status"]')).toBe('');
  expect(rows()).toContain('Why does the build fail on arm64?');
  expect(button(/^Delete from cache: Why does/).disabled).toBe(true);
  backend.wake();
  await pass(5000);
  expect(text('[data-testid="removing"]')).toBe('');
  expect(rows()).not.toContain('Why does the build fail on arm64?');
  expect(text('.head [role="status"]')).toBe('Deleted.');
});

test('a removal that failed later leaves its rows, which can be deleted again', async () => {
  await open((b) => (b.silent = true));
  await click(/^Clear cache…/);
  await click(/^Clear cache$/, document.querySelector('dialog')!);
  await pass(5000);
  expect(text('[data-testid="removing"]')).not.toBe('');
  backend.silent = false;
  await pass(10_000);
  expect(text('[data-testid="removing"]')).toBe('');
  expect(text('.head [role="status"]')).toBe('');
  expect(button(/^Delete from cache: Why does/).disabled).toBe(false);
});

test('pinning shows at once; a failure says what to do and can be dismissed', async () => {
  await open();
  await click(/^Pin: Why does/);
  expect(button(/^Unpin: Why does/).getAttribute('aria-pressed')).toBe('true');
  backend.nextError = new HeadroomError({
    code: 'not_found',
    message: 'What.',
    why: 'Why.',
    fix: 'Fix.',
  });
  await click(/^Unpin: Why does/);
  expect(text('[role="alert"]')).toMatch(/^What\. Why\. Fix\./);
  expect(button(/^Unpin: Why does/)).toBeTruthy();
  await click(/^Dismiss/);
  expect(document.querySelector('[role="alert"]')).toBeNull();
});

test.each(['Delete', 'Backspace'])('table: one tab stop; arrows move, %s deletes', async (key) => {
  await open();
  const stops = () =>
    [...document.querySelectorAll<HTMLElement>('td.title button')].filter(
      (element) => element.tabIndex === 0,
    );
  expect(stops()).toHaveLength(1);
  stops()[0]!.focus();
  await press('ArrowDown');
  await press('ArrowDown');
  expect(document.activeElement?.textContent).toMatch(/^Why does/);
  expect(stops()).toEqual([document.activeElement]);
  await press(key);
  expect(text('dialog h2')).toBe('Delete this conversation from the cache?');
});

test.each([
  ['far', 1000, true],
  ['to the end', 8360, true],
  ['a little', 44, false],
])('table: after scrolling %s, Tab leads to a row in view', async (_, top, gone) => {
  vi.spyOn(HTMLElement.prototype, 'clientHeight', 'get').mockReturnValue(440);
  await open(
    (b) =>
      (b.kept = Array.from({ length: 200 }, (_, i) =>
        fakeConversation({ key: `k${i}`, title: `Conversation ${i}` }),
      )),
  );
  const stop = () => document.querySelector<HTMLElement>('td.title button[tabindex="0"]')!;
  const scroller = document.querySelector<HTMLElement>('.scroller')!;
  const first = stop();
  first.focus();
  scroller.scrollTop = top;
  scroller.dispatchEvent(new Event('scroll'));
  await pass(10);
  const row = Number(stop().dataset.index) * 44;
  expect(row).toBeGreaterThanOrEqual(top);
  expect(row + 44).toBeLessThanOrEqual(top + 440);
  // A row that is still rendered keeps the focus.
  expect(document.activeElement).toBe(gone ? stop() : first);
});

test('with 10,000 conversations only a few dozen rows are rendered', async () => {
  await open(
    (b) =>
      (b.kept = Array.from({ length: 10_000 }, (_, i) =>
        fakeConversation({
          key: i.toString(16).padStart(8, '0'),
          title: `Conversation ${i}`,
          hits: i,
        }),
      )),
  );
  expect(document.querySelector('table')?.getAttribute('aria-rowcount')).toBe('10001');
  expect(rows().length).toBeLessThan(60);
  await click(/Hits/, document.querySelector('thead')!);
  expect(rows()[0]).toBe('Conversation 9999');
  await fill('input[type="search"]', '1234');
  expect(rows()).toEqual(['Conversation 1234']);
});

test('a change of the cache figures reloads the list, with pauses between loads', async () => {
  await open();
  expect(lists()).toBe(1);
  for (let i = 0; i < 8; i++) {
    backend.set((state) => (state.cache.hits += 1));
    await pass(250);
  }
  expect(lists()).toBeLessThanOrEqual(2);
  await pass(3000);
  const settled = lists();
  await pass(30_000);
  expect(lists()).toBe(settled);
  leave();
  backend.set((state) => (state.cache.hits += 1));
  await pass(10_000);
  expect(lists()).toBe(settled);
});

test('requests show the cause of a cache miss, with the differing text marked', async () => {
  await open();
  await click(/^Requests$/);
  expect(text('[data-testid="reuse"]')).toBe(
    '96 % of 1,000,000 tokens reused: 94 % from memory, 2 % from disk. 2 % computed again.',
  );
  const list = [...document.querySelectorAll('[data-testid="finished"]')];
  expect(list).toHaveLength(4);
  expect(list[1]!.textContent).toMatch(/A date or time changed/);
  await click(/A date or time changed/);
  expect(text('.advice')).toMatch(/^A date or time in the beginning changes/);
  expect(text('.texts del')).toBe('1');
  expect(text('.texts ins')).toBe('2');
  expect(text('.texts .same')).toBe('You are a careful assistant. It is 10:0');
  expect(text('[data-testid="cache-miss"] .figures')).toMatch(
    inOrder(
      /from memory 42 tokens, <1 %computed again 8,050 tokens, 98 %new 100 tokens, 1 %/,
      /First token after 7\.4 s/,
    ),
  );
  expect(text('[data-testid="cache-miss"] .figures')).toMatch(
    /Decoded ahead 106 of 120 drafts accepted, 2\.0 tokens a pass, about 1\.42x as fast as without/,
  );
  expect(document.querySelector('[data-testid="no-drafts"]')).toBeNull();
  await click(/A date or time changed/);
  expect(document.querySelector('[data-testid="cache-miss"]')).toBeNull();
});

test('a request without drafts has no line about decoding ahead', async () => {
  await open(
    (b) =>
      (b.requests = b.requests.map((one) => ({
        ...one,
        draftTokens: 0,
        acceptedTokens: 0,
        noDrafts: 'Other requests used all memory of the draft model.',
      }))),
  );
  await click(/^Requests$/);
  await click(/A date or time changed/);
  expect(text('[data-testid="no-drafts"]')).toBe(
    'Not decoded ahead. Other requests used all memory of the draft model.',
  );
  expect(text('[data-testid="cache-miss"] .figures')).toMatch(/First token after 7\.4 s/);
  expect(text('[data-testid="cache-miss"] .figures')).not.toMatch(/Decoded ahead|drafts/);
});

test('a new finished request appears without polling', async () => {
  await open();
  await click(/^Requests$/);
  backend.requests = [{ ...backend.requests[0]!, id: 'new' }, ...backend.requests];
  await pass(5000);
  expect(document.querySelectorAll('[data-testid="finished"]')).toHaveLength(4);
  backend.set((state) => (state.lastFinished = 'new'));
  await pass(10);
  expect(document.querySelectorAll('[data-testid="finished"]')).toHaveLength(5);
});

test('limits accept sizes as people type them, apply at once, and can be undone', async () => {
  await open();
  await click(/^Limits$/);
  await fill('#cache-minFreeBytes', 'plenty', 'change');
  expect(text('#cache-minFreeBytes-help')).toMatch(/^Not a size/);
  await fill('#cache-minFreeBytes', '25 GB', 'change');
  expect(backend.calls.at(-1)).toBe('change {"minFreeBytes":25000000000}');
  expect(document.querySelector<HTMLInputElement>('#cache-minFreeBytes')!.value).toBe('25 GB');
  await click(/^Undo$/);
  expect(backend.calls.at(-1)).toBe('change {"minFreeBytes":0}');
  expect(document.querySelector<HTMLInputElement>('#cache-minFreeBytes')!.value).toBe('');
});

test('a maximum below the size of the cache asks first', async () => {
  await open();
  await click(/^Limits$/);
  await fill('#cache-maxBytes', '1 GB', 'change');
  expect(text('dialog')).toMatch(
    /^Make the cache smaller\? The cache holds 4\.2 GB\. Headroom deletes .* until 1\.0 GB is left/,
  );
  await click(/^Cancel$/, document.querySelector('dialog')!);
  expect(backend.calls.some((call) => call.startsWith('change'))).toBe(false);
  expect(document.querySelector<HTMLInputElement>('#cache-maxBytes')!.value).toBe('');
  await fill('#cache-maxBytes', '1 GB', 'change');
  await click(/^Delete and apply$/);
  expect(backend.calls.at(-1)).toBe('change {"maxBytes":1000000000}');
});

test('the switch takes effect after a restart; a command-line flag overrides it', async () => {
  await open();
  await click(/^Limits$/);
  document.querySelector<HTMLElement>('[role="switch"]')!.click();
  await pass(10);
  expect(backend.calls.at(-1)).toBe('change {"on":false}');
  expect(text('.later')).toBe('Turns off when Headroom restarts.');
  await open((b) => (b.settings = { ...b.settings, readOnly: ['on', 'dir', 'maxBytes'] }));
  await click(/^Limits$/);
  expect(
    [...document.querySelectorAll<HTMLInputElement>('input')].map(({ disabled }) => disabled),
  ).toEqual([true, false, false, true]);
  expect(document.querySelector<HTMLButtonElement>('[role="switch"]')!.disabled).toBe(true);
});

test('the page says what to do when the cache is empty, has failed or is off', async () => {
  const off = { on: false, dir: '', error: '', bytes: 0, entries: 0 };
  await open((b) => {
    b.state.cache = fakeCache(off);
    b.settings = { ...b.settings, on: false };
    b.kept = [];
  });
  expect(text('[data-testid="cache-off"]')).toMatch(/^The disk cache is off .* Turn on$/);
  await click(/^Turn on$/);
  expect(text('[data-testid="cache-off"]')).toMatch(/turns on when Headroom restarts\.$/);
  expect(text('.empty')).toMatch(/^Nothing is cached yet Ask something/);
  backend.set(
    (state) => (state.cache = fakeCache({ ...off, dir: '/d', error: 'mkdir /d: not a directory' })),
  );
  flushSync();
  expect(text('[role="alert"]')).toMatch(
    /^The disk cache is not working\. Mkdir \/d: not a directory\. Make the folder \/d available/,
  );
});

test('a list that cannot be read offers Try again', async () => {
  await open((b) => {
    b.conversations = async () => {
      throw new HeadroomError({
        code: 'internal',
        message: 'The cache on disk cannot be used',
        why: 'disk I/O error',
        fix: '',
      });
    };
  });
  expect(text('[role="alert"]')).toMatch(
    /^The cache on disk cannot be used\. Disk I\/O error\. Try again/i,
  );
  backend.conversations = FakeBackend.prototype.conversations;
  await click(/^Try again$/);
  expect(document.querySelector('[role="alert"]')).toBeNull();
  expect(rows().length).toBeGreaterThan(5);
});

test('in a browser the new folder is typed; a move can be stopped, then discarded', async () => {
  await open();
  await click(/^Limits$/);
  await click(/^Move…$/);
  expect(button(/^Move$/).disabled).toBe(true);
  await fill('[aria-label="Folder to move to"]', ' /Volumes/SSD ');
  backend.nextError = new HeadroomError({
    code: 'bad_request',
    message: 'There is not enough space for the cache',
    why: '',
    fix: 'Free some space there',
  });
  await click(/^Move$/);
  expect(text('[role="alert"]')).toMatch(
    /^There is not enough space for the cache\. Free some space there/,
  );
  expect(document.querySelector<HTMLInputElement>('[aria-label="Folder to move to"]')!.value).toBe(
    ' /Volumes/SSD ',
  );
  await click(/^Move$/);
  expect(backend.calls.at(-1)).toBe('move /Volumes/SSD');
  expect(text('[role="status"]')).toBe('Moving 4.2 GB to /Volumes/SSD.');
  const job = () => text('[data-testid="job"]');
  expect(job()).toMatch(/^Moving the cache to \/Volumes\/SSD 0 .?B of 4\.2 GB/);
  expect(button(/^Move…$/).disabled).toBe(true);
  await click(/^Stop$/);
  expect(job()).toMatch(/Paused at .* Resume$/);
  await click(/^Discard: /);
  expect(text('dialog')).toMatch(/^Delete what was copied\? The cache stays where it is/);
  await click(/^Delete$/);
  expect(backend.calls.at(-1)).toBe('remove cache-1');
  expect(button(/^Move…$/).disabled).toBe(false);
});

test('after a move the new folder is shown without a restart', async () => {
  await open();
  await click(/^Limits$/);
  const before = backend.calls.length;
  backend.settings = { ...backend.settings, dir: '/Volumes/SSD' };
  backend.set((state) => (state.cache = fakeCache({ dir: '/Volumes/SSD' })));
  await pass(10);
  expect(document.querySelector<HTMLInputElement>('#cache-dir')!.value).toBe('/Volumes/SSD');
  expect(document.querySelector('.later')).toBeNull();
  expect(backend.calls.slice(before)).not.toContain('change');
});

test('the window opens a folder dialog; a cache folder set by a flag cannot be moved', async () => {
  const chosen = ['', '/chosen'];
  vi.stubGlobal('go', { main: { Dialogs: { ChooseFolder: async () => chosen.shift() } } });
  await open();
  await click(/^Limits$/);
  await click(/^Move…$/);
  expect(backend.calls.some((call) => call.startsWith('move'))).toBe(false);
  await click(/^Move…$/);
  expect(backend.calls.at(-1)).toBe('move /chosen');
  await open((b) => (b.settings = { ...b.settings, readOnly: ['dir'] }));
  await click(/^Limits$/);
  expect(
    [...document.querySelectorAll('button')].some((one) => one.textContent?.includes('Move')),
  ).toBe(false);
});

// Tests the Memory page with the fake backend, as a user sees and operates it.
import { expect, test } from 'vitest';
import { HeadroomError } from './lib/backend/backend';
import { FakeBackend, fakeState } from './lib/backend/fake';
import Memory from './views/Memory.svelte';
import { pass, testPage } from './testpage';
import { inOrder } from './inorder';

const openPage = testPage(Memory, (engine) => ({ engine }), 300);
let backend: FakeBackend;

async function open(change?: (backend: FakeBackend) => void) {
  ({ backend } = await openPage(change));
}

const text = (selector: string) =>
  document.querySelector(selector)?.textContent?.replace(/\s+/g, ' ').trim() ?? '';
const all = (selector: string) =>
  [...document.querySelectorAll(selector)].map(
    (element) => element.textContent?.replace(/\s+/g, ' ').trim() ?? '',
  );

function button(name: RegExp): HTMLButtonElement {
  const found = [...document.querySelectorAll('button')].find((element) =>
    name.test(element.textContent?.trim() ?? ''),
  );
  if (!found) throw new Error(`no button ${name}`);
  return found;
}

async function click(name: RegExp) {
  button(name).click();
  await pass(10);
}

async function slide(id: string, step: number) {
  const field = document.querySelector<HTMLInputElement>(id)!;
  field.value = String(step);
  field.dispatchEvent(new Event('input', { bubbles: true }));
  await pass(200);
}

const questions = () => backend.calls.filter((call) => call.startsWith('what-if'));

test('every part of the memory has its size, share and source', async () => {
  await open();
  const rows = all('[data-testid="part"]');
  expect(rows).toHaveLength(9);
  expect(rows[0]).toMatch(/^Weights ?4\.1 GB ?17 % ?The model itself.*Measured by Headroom$/);
  expect(rows[2]).toMatch(/^KV cached ?307 MB ?1 % ?KV cache of earlier requests/);
  expect(rows[4]).toMatch(/^Scratch ?~410 MB.*Estimated$/);
  expect(rows[5]).toMatch(/^Reserved, not used ?1\.1 GB ?5 % ?Promised to the loaded models/);
  const hatched = document.querySelectorAll('.segment.reserved, .swatch.reserved');
  expect(hatched).toHaveLength(2); // in the bar and in the table
  expect(rows[8]).toMatch(/^Free ?9\.8 GB.*Reported by the system$/);
  expect(text('tfoot')).toMatch(/^All ?24\.0 GB ?100 %.*The disk cache holds another 4\.2 GB/);
});

test('a slider sends one request when it stops; choosing a format sends no request', async () => {
  await open();
  expect(questions()).toEqual(['what-if headroom-demo 0 0']);
  expect(text('[data-testid="verdict"]')).toBe(
    'Needs ~1.2 GB, 15.5 GB available after unloading headroom-demo: fits. ' +
      'Longest context that fits: 262,144 tokens.',
  );
  expect(all('[data-testid="format"]')).toHaveLength(3);
  const select = document.querySelector<HTMLSelectElement>('select[aria-label="Model"]')!;
  select.value = 'qwen3.6-35b-a3b';
  select.dispatchEvent(new Event('change', { bubbles: true }));
  await pass(300);
  expect(text('[data-testid="verdict"]')).toBe(
    'Needs ~18.5 GB, 15.5 GB available after unloading headroom-demo: does not fit. ' +
      'No context fits.',
  );
  for (const step of [0, 1, 2]) {
    const field = document.querySelector<HTMLInputElement>('#what-if-context')!;
    field.value = String(step);
    field.dispatchEvent(new Event('input', { bubbles: true }));
    await pass(50);
  }
  await slide('#what-if-streams', 0);
  expect(questions().slice(2)).toEqual(['what-if qwen3.6-35b-a3b 8192 1']);
  expect(all('output')).toEqual(['8,192 tokens', '1 concurrent']);
  const asked = questions().length;
  const exact = [...document.querySelectorAll<HTMLInputElement>('input[type="radio"]')].at(-1)!;
  exact.click();
  await pass(300);
  expect(text('tr.selected')).toMatch(/^16-bit, exact/);
  expect(questions()).toHaveLength(asked);
});

test('Save stores the choice for the model', async () => {
  await open(
    (b) =>
      (b.options['headroom-demo'] = {
        settings: { stateFormat: 'int8', kvGroupSize: '32' },
        readOnly: [],
      }),
  );
  await slide('#what-if-context', 0);
  await slide('#what-if-streams', 1);
  document.querySelectorAll<HTMLInputElement>('input[type="radio"]')[2]!.click();
  await pass(10);
  await click(/^Save for Headroom demo$/);
  expect(backend.calls.at(-1)).toBe(
    'settings headroom-demo {"stateFormat":"int8","contextTokens":2048,"maxSequences":2,' +
      '"kvFormat":"f16","kvBits":""}',
  );
  const asked = questions().length;
  await pass(300);
  expect(questions()).toHaveLength(asked + 1);
  expect(text('.actions [role="status"]')).toBe('Saved. Applies when the model is reloaded.');
});

test('a failed plan says why', async () => {
  await open((b) => {
    b.whatIf = async () => {
      throw new HeadroomError({ code: 'model_broken', message: 'What.', why: 'Why.', fix: 'Fix.' });
    };
  });
  expect(text('[data-testid="what-if"] [role="alert"]')).toMatch(/^What\. Why\. Fix\./);
});

test('a wired limit that cannot be read says why, and the page shows the rest', async () => {
  await open(
    (b) =>
      (b.nextError = new HeadroomError({
        code: 'internal',
        message: 'What.',
        why: 'Why.',
        fix: '',
      })),
  );
  expect(text('.page > [role="alert"]')).toMatch(/^What\. Why\./);
  expect(all('[data-testid="format"]')).toHaveLength(3);
});

test('the wired limit changes only after the command that sets it was shown', async () => {
  await open();
  expect(text('[data-testid="wired"] dl')).toMatch(
    inOrder(
      /Current ?the system’s default ?Metal recommends ?at most 16\.0 GB ?/,
      /Safe on this Mac ?20\.0 GB/,
      /After a restart ?the system’s default/,
    ),
  );
  expect(text('[data-testid="wired"] [role="status"]')).toMatch(
    /^Headroom demo needs ~1\.2 GB, which is within the limit/,
  );
  expect(button(/^Restore default/).disabled).toBe(true);
  await click(/^Apply permanently/);
  expect(text('dialog')).toMatch(
    inOrder(
      /^Change the wired limit permanently\? 20\.0 GB, now and after each restart\. /,
      /\/usr\/sbin\/sysctl iogpu\.wired_limit_mb=20480 && /,
      /launchctl bootstrap/,
    ),
  );
  await click(/^Cancel$/);
  expect(backend.calls.some((call) => call.startsWith('wired'))).toBe(false);
  await click(/^Apply permanently/);
  await click(/^Change$/);
  expect(backend.calls.at(-1)).toBe(`wired persist ${20 * 2 ** 30}`);
  expect(text('[data-testid="wired"] dl')).toMatch(
    /Current ?20\.0 GB, set by iogpu.*After a restart ?20\.0 GB is set again/,
  );
  await click(/^Restore default/);
  await click(/^Restore$/);
  expect(backend.calls.at(-1)).toBe('wired reset 0');
  expect(button(/^Restore default/).disabled).toBe(true);
});

test('restoring brings back the limit from before Headroom changed it', async () => {
  await open(
    (b) => (b.limit = { ...b.limit, limitBytes: 20 * 2 ** 30, earlierBytes: 18 * 2 ** 30 }),
  );
  await click(/^Restore 18\.0 GB…$/);
  expect(text('dialog')).toMatch(
    /^Restore the earlier wired limit\? 18\.0 GB applied before Headroom changed the limit\. /,
  );
});

test('a limit that leaves too little for the system is refused', async () => {
  await open();
  const field = document.querySelector<HTMLInputElement>('#wired-limit')!;
  field.value = '23.9';
  field.dispatchEvent(new Event('change', { bubbles: true }));
  await pass(10);
  expect(text('#wired-help')).toBe('Enter a size from 1.0 GB to 22.0 GB.');
  expect(button(/^Apply until restart/).disabled).toBe(true);
  field.value = '18';
  field.dispatchEvent(new Event('change', { bubbles: true }));
  await pass(10);
  await click(/^Apply until restart/);
  expect(text('dialog pre')).toBe('/usr/sbin/sysctl iogpu.wired_limit_mb=18432');
  backend.nextError = new HeadroomError({
    code: 'cancelled',
    message: 'The wired limit was not changed',
    why: "the administrator's password was not given",
    fix: 'Try again, or run the command with sudo in Terminal.',
  });
  await click(/^Change$/);
  expect(text('[data-testid="wired"] [role="alert"]')).toMatch(
    /^The wired limit was not changed\. The administrator's password was not given\. Try again, /,
  );
});

test('without a wired limit the page says so and shows the rest', async () => {
  await open((b) => (b.limit = { ...b.limit, unavailableReason: 'Only macOS limits this' }));
  expect(text('[data-testid="wired"]')).toBe('Wired limit Only macOS limits this.');
  expect(all('[data-testid="part"]')).toHaveLength(9);
});

test('the page says what the system reports of pressure and swap', async () => {
  await open();
  expect(text('[data-testid="pressure-line"]')).toBe(
    'Memory pressure: normal Swap: 512 MB of 2.0 GB',
  );
  expect(document.querySelector('[data-testid="pressure"]')).toBeNull();
});

test('while memory is short, each model can be unloaded, with what that frees', async () => {
  const GiB = 2 ** 30;
  await open((backend) => {
    const state = fakeState(Date.now());
    state.pressure = {
      level: 'critical',
      swapUsedBytes: 3 * GiB,
      swapTotalBytes: 4 * GiB,
      stallPercent: 0,
      freedBytes: GiB,
      advice: [
        { model: 'headroom-demo', freesBytes: 5 * GiB, busy: true, pinned: false, lastUsedAt: 0 },
      ],
    };
    backend.state = state;
  });
  const notice = text('[data-testid="pressure"]');
  expect(notice).toMatch(/^Memory is very short The system has moved 3\.0 GB to swap/);
  expect(notice).toMatch(/Headroom has returned 1\.0 GB of cached conversations\./);
  expect(notice).toMatch(/would free 5\.0 GB, but it is answering/);
  await click(/^Unload$/);
  expect(backend.calls).toContain('stop headroom-demo');
});

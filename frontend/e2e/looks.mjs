// Looks at a page as people see it: in both themes, at each width, and at 200 % zoom.
import assert from 'node:assert/strict';
import { accessibilityFaults } from './axe.mjs';

export const sizes = {
  '-390': { width: 390, height: 844 },
  '-800': { width: 800, height: 600 },
  '': { width: 1100, height: 720 },
  '-1600': { width: 1600, height: 1000 },
  '-zoom': { width: 550, height: 380 }, // 1100 x 760 at 200 %
};

/** The smallest window, and a usual one. */
export const windows = { '-small': { width: 760, height: 560 }, '': sizes[''] };

/**
 * The sizes and themes to look at: every size in both themes. With LOOKS=few, as in `make test`,
 * the narrowest size in the dark theme and the widest in the light one.
 */
export function views(at) {
  const all = Object.entries(at).map(([suffix, size]) => ({ suffix, size }));
  if (process.env.LOOKS !== 'few')
    return all.flatMap((view) => ['dark', 'light'].map((theme) => ({ ...view, theme })));
  const byWidth = all.toSorted((a, b) => a.size.width - b.size.width);
  return [
    { ...byWidth[0], theme: 'dark' },
    { ...byWidth.at(-1), theme: 'light' },
  ];
}

/** What sticks out of the page or of the open dialog, to the right. */
const tooWide = (page) =>
  page.evaluate(() => {
    const faults = [];
    const wider = document.documentElement.scrollWidth - innerWidth;
    if (wider > 0) faults.push(`the page is ${wider} px too wide`);
    const dialog = document.querySelector('dialog[open]');
    const edge = dialog?.getBoundingClientRect().right ?? innerWidth;
    const shown = (dialog ?? document.body).querySelectorAll('button, input, p, h1, h2, h3, a');
    for (const element of shown) {
      const { right, width } = element.getBoundingClientRect();
      const hidden = element.closest('.visually-hidden, .scroller, [aria-hidden="true"]');
      if (width > 0 && right > edge + 1 && !hidden)
        faults.push(`${element.tagName} "${element.textContent.trim().slice(0, 30)}" sticks out`);
    }
    return faults;
  });

/** Takes a picture of each, and checks accessibility and widths. Ends in the light theme. */
export async function lookEverywhere(page, shot, name, at = sizes) {
  const faults = [];
  for (const { suffix, size, theme } of views(at)) {
    await page.setViewportSize(size);
    await page.emulateMedia({ colorScheme: theme });
    const found = [...(await accessibilityFaults(page)), ...(await tooWide(page))];
    faults.push(...found.map((fault) => `${name}${suffix}, ${theme}: ${fault}`));
    await shot(`${name}${suffix}-${theme}`);
  }
  await page.setViewportSize(sizes['']);
  assert.deepEqual(faults, []);
}

// The end-to-end steps of the window's frame: keys, palette, focus, and what the page does in the
// Mac's window, whose runtime is imitated here. What only a Mac shows is in app/UNVERIFIED.md.
import assert from 'node:assert/strict';
import { accessibilityFaults } from './axe.mjs';
import { goTo, until } from './helpers.mjs';
import { views } from './looks.mjs';

const focus = (page) =>
  page.evaluate(() => {
    const { tagName, id, ariaLabel, type } = document.activeElement;
    return `${tagName.toLowerCase()}#${id} ${ariaLabel ?? ''} ${type ?? ''}`;
  });
const focused = (page, what) =>
  until(`the focus is on ${what}`, async () => what.test(await focus(page)));

/** Runs a command of the palette by the keyboard. */
async function command(page, words) {
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Command' }).fill(words);
  await page.keyboard.press('Enter');
}

/** Imitates the Mac's window before the page's scripts run. */
function imitateMac({ place, appearance }) {
  Object.defineProperty(navigator, 'platform', { get: () => 'MacIntel' });
  const seen = { zoom: [], dark: [], handlers: {} };
  window.seen = seen;
  window.go = {
    main: {
      Frame: {
        Place: async () => place,
        SetDark: async (dark) => void seen.dark.push(dark),
        SetZoom: async (factor) => (seen.zoom.push(factor), true),
      },
    },
  };
  window.runtime = {
    EventsOn(name, take) {
      seen.handlers[name] = take;
      return () => {};
    },
  };
  if (appearance) localStorage.setItem('headroom.appearance', appearance);
  new PerformanceObserver(() => {
    seen.firstColour ??= getComputedStyle(document.documentElement).getPropertyValue('--bg');
  }).observe({ type: 'paint', buffered: true });
}

async function macWindow({ page, server }, { place = '', appearance = '', theme = 'light' }) {
  const context = await page
    .context()
    .browser()
    .newContext({
      viewport: { width: 1100, height: 720 },
      colorScheme: theme,
    });
  const mac = await context.newPage();
  await mac.addInitScript(imitateMac, { place, appearance });
  await mac.goto(server.url);
  await mac.getByRole('navigation', { name: 'Pages' }).waitFor();
  return { mac, context };
}

const send = (mac, event, text) =>
  mac.evaluate(([event, text]) => window.seen.handlers[event](text), [event, text]);

export const frameSteps = [
  [
    'keys go to pages and settings, and the title and the focus follow',
    async ({ page }) => {
      await page.keyboard.press('Control+,');
      await until('Settings', async () => (await page.title()) === 'Settings – Headroom');
      await focused(page, /^main# Settings/);
      await page.keyboard.press('Control+3');
      await until('Models', async () => (await page.title()) === 'Models – Headroom');
      await page.keyboard.press('Control+f');
      await focused(page, /^input# .* search$/);
    },
  ],

  [
    'the palette finds what is inside the pages, and goes there',
    async ({ page }) => {
      await command(page, 'wired');
      await focused(page, /^h2#wired-title/);
      await command(page, 'port of');
      await focused(page, /^p#setting-port-help/);
      await command(page, 'log');
      await focused(page, /^h2#settings-log/);
    },
  ],

  [
    'a sheet takes the focus into its field, and gives it back',
    async ({ page }) => {
      await goTo(page, 'Models');
      const button = page.locator('[data-command="download"]');
      await button.focus();
      await page.keyboard.press('Enter');
      await page.getByRole('dialog').waitFor();
      await focused(page, /^input#/);
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      await until('the button has the focus', () =>
        button.evaluate((one) => one === document.activeElement),
      );
      await command(page, 'download');
      await page.getByRole('dialog').waitFor();
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
    },
  ],

  [
    'the hints of the Overview can be reached by the keyboard',
    async ({ page }) => {
      await goTo(page, 'Overview');
      const facts = page.getByTestId('facts');
      await facts.locator('[tabindex="0"]').first().focus();
      await page.keyboard.press('Shift+Tab');
      await page.keyboard.press('Tab');
      await page.getByRole('tooltip').waitFor();
      await page.keyboard.press('Escape');
      await page.getByRole('tooltip').waitFor({ state: 'hidden' });
    },
  ],

  [
    'narrow: every page at 390 px, 800 px and 200 % zoom, light and dark',
    async ({ page, shot }) => {
      const faults = [];
      const sizes = [390, 550, 800].map((width) => ({ width, height: 844 }));
      for (const { size, theme } of views(sizes)) {
        const { width } = size;
        await page.setViewportSize(size);
        await page.emulateMedia({ colorScheme: theme });
        for (const name of ['Overview', 'Memory', 'Cache', 'Settings']) {
          await goTo(page, name);
          await page.mouse.move(1, 1);
          const wider = await page.evaluate(() => {
            const scroll = document.querySelector('main .scroll');
            return Math.max(
              document.documentElement.scrollWidth - innerWidth,
              scroll ? scroll.scrollWidth - scroll.clientWidth : 0,
            );
          });
          assert.ok(wider <= 0, `${name} at ${width} px is ${wider} px too wide`);
          await shot(`narrow-${name.toLowerCase()}-${width}-${theme}`);
          faults.push(
            ...(await accessibilityFaults(page)).map(
              (fault) => `${name}, ${width}, ${theme}: ${fault}`,
            ),
          );
        }
      }
      await page.setViewportSize({ width: 1100, height: 720 });
      await page.emulateMedia({ colorScheme: 'light' });
      assert.deepEqual(faults, []);
    },
  ],

  [
    'the Mac window: translucent sidebar, room for its buttons, menu commands, zoom, places',
    async (tools) => {
      for (const theme of ['light', 'dark']) {
        const { mac, context } = await macWindow(tools, { place: 'page=cache', theme });
        await until('the place', async () => (await mac.title()) === 'Cache – Headroom');
        const style = await mac.evaluate(() => {
          const nav = getComputedStyle(document.querySelector('nav'));
          const body = getComputedStyle(document.body).backgroundColor;
          return { body, nav: nav.backgroundColor, top: parseFloat(nav.paddingTop) };
        });
        assert.equal(style.body, 'rgba(0, 0, 0, 0)');
        assert.match(style.nav, /\/ 0\.7\)$|, 0\.7\)$/);
        assert.ok(style.top >= 52, `the first page is ${style.top} px below the edge`);
        assert.deepEqual(await mac.evaluate(() => window.seen.dark.at(-1)), theme === 'dark');

        await send(mac, 'headroom:command', 'zoom-in');
        await send(mac, 'headroom:command', 'zoom-in');
        await send(mac, 'headroom:command', 'zoom-out');
        assert.deepEqual(await mac.evaluate(() => window.seen.zoom), [1, 1.1, 1.25, 1.1]);
        await send(mac, 'headroom:command', 'new-chat');
        await mac.getByRole('textbox', { name: 'Message' }).waitFor();
        await send(mac, 'headroom:place', 'page=models');
        await until('Models', async () => (await mac.title()) === 'Models – Headroom');
        await send(mac, 'headroom:command', 'find');
        await focused(mac, /search$/);
        await mac.screenshot({ path: `${process.env.SCREENSHOTS || '.e2e'}/mac-${theme}.png` });
        await context.close();
      }
    },
  ],

  [
    'the Mac window begins in the right colour, and where it was left',
    async (tools) => {
      const colours = { light: '#f4f6f6', dark: '#171b1b' };
      for (const appearance of ['light', 'dark']) {
        const theme = appearance === 'light' ? 'dark' : 'light'; // the system has the other one
        const { mac, context } = await macWindow(tools, { appearance, theme });
        await until('a first paint', () => mac.evaluate(() => window.seen.firstColour));
        assert.equal(
          (await mac.evaluate(() => window.seen.firstColour)).trim(),
          colours[appearance],
        );
        const nav = await mac.evaluate(
          () => getComputedStyle(document.querySelector('nav')).backgroundColor,
        );
        assert.match(
          nav,
          /^rgb\(/,
          'with another appearance than the system the sidebar is opaque',
        );
        await goTo(mac, 'Memory');
        await mac.goto('about:blank');
        await mac.goto(tools.server.url);
        await until('the page is restored', async () => /Memory/.test(await mac.title()));
        await context.close();
      }
    },
  ],
];

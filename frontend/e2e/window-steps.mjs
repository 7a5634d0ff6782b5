// The end-to-end steps of the whole window. The last one ends the server.
import assert from 'node:assert/strict';
import { accessibilityFaults } from './axe.mjs';
import { goTo } from './helpers.mjs';
import { views } from './looks.mjs';

export const windowSteps = [
  [
    'the dark theme, three window sizes, and no accessibility errors',
    async ({ page, shot }) => {
      const sizes = {
        '': { width: 1100, height: 720 },
        '-large': { width: 1600, height: 1000 },
        '-small': { width: 760, height: 560 },
      };
      const faults = [];
      for (const { suffix, size, theme } of views(sizes)) {
        await page.setViewportSize(size);
        await page.emulateMedia({ colorScheme: theme });
        for (const name of ['Models', 'Memory', 'Cache', 'Try', 'Settings', 'Chat', 'Overview']) {
          await goTo(page, name);
          if (name === 'Memory') await page.getByTestId('verdict').waitFor();
          await page.mouse.move(1, 1);
          const wider = await page.evaluate(
            () => document.documentElement.scrollWidth - innerWidth,
          );
          assert.ok(wider <= 0, `${name} at ${size.width} px is ${wider} px too wide`);
          await shot(`${name.toLowerCase()}${suffix}-${theme}`);
          faults.push(
            ...(await accessibilityFaults(page)).map(
              (fault) => `${name}${suffix}, ${theme}: ${fault}`,
            ),
          );
        }
      }
      await page.setViewportSize(sizes['']);
      assert.deepEqual(faults, []);
    },
  ],

  [
    'the keyboard reaches the switch, and a ring shows the focus',
    async ({ page }) => {
      await goTo(page, 'Overview');
      // Tab past the other pages in the sidebar, and the facts with their hints.
      const others =
        (await page.getByRole('navigation', { name: 'Pages' }).getByRole('button').count()) -
        1 +
        (await page.getByTestId('facts').locator('[tabindex="0"]').count());
      const seen = [];
      for (let i = 0; i <= others; i++) {
        await page.keyboard.press('Tab');
        seen.push(await page.evaluate(() => document.activeElement.outerHTML.slice(0, 60)));
      }
      const focused = await page.evaluate(() => {
        const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
        return { role: document.activeElement.getAttribute('role'), outlineStyle, outlineWidth };
      });
      assert.deepEqual(
        focused,
        { role: 'switch', outlineStyle: 'solid', outlineWidth: '2px' },
        seen.join('\n'),
      );
    },
  ],

  [
    'nothing moves when the system asks for less motion',
    async ({ page }) => {
      await page.emulateMedia({ reducedMotion: 'reduce' });
      const moving = await page.evaluate(
        () =>
          [...document.querySelectorAll('*')].filter((element) =>
            getComputedStyle(element)
              .transitionDuration.split(', ')
              .some((time) => parseFloat(time) > 0),
          ).length,
      );
      assert.equal(moving, 0);
      await page.emulateMedia({ reducedMotion: 'no-preference' });
    },
  ],

  [
    'the page says when the connection is lost',
    async ({ page, server, shot }) => {
      if (!server.kill) return 'the server is not ours to end';
      await server.kill();
      await page.getByText('Connection lost.').waitFor();
      await page.getByRole('button', { name: 'Try now' }).waitFor();
      assert.equal(await page.getByRole('switch', { name: /the engine/ }).isDisabled(), true);
      await shot('connection-lost-light');
    },
  ],
];

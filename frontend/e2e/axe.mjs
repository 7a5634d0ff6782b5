// Accessibility checks with axe-core.
import { AxeBuilder } from '@axe-core/playwright';

/** The violations that axe-core finds on the current page: the rule, its help, and the elements. */
export async function accessibilityFaults(page) {
  await settled(page);
  const { violations } = await new AxeBuilder({ page }).analyze();
  return violations.map(
    ({ id, help, nodes }) =>
      `${id}: ${help}: ${nodes
        .map(({ target }) => target.join(' '))
        .slice(0, 4)
        .join(', ')}`,
  );
}

/**
 * Waits until colours and positions are final. A change of theme starts one frame later and lasts
 * as long as its transitions.
 */
function settled(page) {
  return page.evaluate(async () => {
    const frame = () => new Promise(requestAnimationFrame);
    await frame();
    await frame();
    const ending = document
      .getAnimations()
      .filter((animation) => animation.effect?.getComputedTiming().endTime !== Infinity);
    await Promise.allSettled(ending.map((animation) => animation.finished));
  });
}

// Accessibility, as axe-core judges it.
import { AxeBuilder } from '@axe-core/playwright';

/** What axe-core finds wrong with the page as it is: the rule, what it asks, and where. */
export async function accessibilityFaults(page) {
  const { violations } = await new AxeBuilder({ page }).analyze();
  return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ target }) => target.join(' ')).slice(0, 4).join(', ')}`);
}

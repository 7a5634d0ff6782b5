// Words beside numbers and times, on every page. lib/format.ts adds the units: GB, tok/s, min.
import { counted, type Text } from './text';

export const units = {
  tokens: (count: Text) => counted(count, 'token', 'tokens'),
  yesterday: (clock: Text) => `yesterday ${clock}`,
  months: ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'],
};

// Who sent a request, and to which model.
import { requests as t } from '../strings/shared';

interface Sent {
  /** The program, from its User-Agent; empty: unknown. */
  client: string;
  /** The name of its API key; empty: none. */
  key: string;
  model: string;
}

/** The sender of a request and its model, for a line below its first words. */
export function senderOf({ client, key, model }: Sent): string {
  return [client, key && t.key(key), model].filter(Boolean).join(', ');
}

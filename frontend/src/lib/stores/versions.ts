// The versions of a conversation: a question that is edited and an answer that is generated again
// keep what was there before, from that message on.
//
// The first message of a version holds the others. Those have none of their own at that message,
// but may have some further on.
import type { Message } from './conversations';

/** All versions from messages[at] on, in order; the messages shown are removed. */
function takeVersions(messages: Message[], at: number): Message[][] {
  const shown = messages.splice(at);
  const head = shown[0]!;
  const all = [...head.others];
  all.splice(head.version, 0, shown);
  head.others = [];
  head.version = 0;
  return all;
}

/**
 * Replaces the messages from `at` on by one that begins another version. An answer without a text
 * is not kept as a version.
 */
export function beginVersion(messages: Message[], at: number, head: Message): void {
  const all = takeVersions(messages, at).filter(
    (version) => version.length > 1 || hasText(version[0]!),
  );
  head.others = all;
  head.version = all.length;
  messages.push(head);
}

/** Shows another version from `at` on. */
export function showVersion(messages: Message[], at: number, version: number): void {
  const all = takeVersions(messages, at);
  const [shown] = all.splice(version, 1);
  const head = shown![0]!;
  head.others = all;
  head.version = version;
  messages.push(...shown!);
}

const hasText = ({ role, content, reasoning, calls }: Message) =>
  role === 'user' || content !== '' || reasoning !== '' || calls.length > 0;

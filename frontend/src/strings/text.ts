/** A value inside a sentence, already formatted. */
export type Text = string | number;

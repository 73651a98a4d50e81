// Which item of a list is which, after items before it were removed. Pure.

/** A number for each item of a list. An item keeps its number, and so what was typed into it, when another one is removed. */
export class Keys {
  private readonly numbers: number[] = [];
  private next = 0;

  at(place: number): number {
    while (this.numbers.length <= place) this.numbers.push(this.next++);
    return this.numbers[place] ?? 0;
  }

  remove(place: number): void {
    this.at(place);
    this.numbers.splice(place, 1);
  }
}

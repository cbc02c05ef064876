"""Currency conversion for the reports."""


def to_eur(amount_usd: float, usd_per_eur: float) -> float:
    """Amount in EUR, rounded to cents. The rate says how many USD one EUR costs."""
    return round(amount_usd * usd_per_eur, 2)

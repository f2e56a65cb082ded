"""The questions: each module plans the cells of one and draws its conclusion from them. Pure but for ab and swap."""

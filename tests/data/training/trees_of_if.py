# expected: setup builder
# Loops below `if` and `with`, a comment at the end, odd indentation, a text over several lines.
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if __name__ == "__main__":
  with torch.enable_grad():
      for epoch in range(2):  # epochs
          # before the batches
          for x in torch.randn(3, 4, 3):
              # before anything
              optimizer.zero_grad()  # forget
              text = """
    a text
  over several lines
"""
              loss = (model(x)
                .square()
                .mean())
              loss.backward()  # gradients
              # between
              optimizer.step()
              print(text,
                loss.item())
              # behind everything
          # behind the batches
          print(epoch)
      # behind the epochs
  print("done")
